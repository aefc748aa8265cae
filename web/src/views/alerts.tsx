// Alerts: what is wrong now, who looks after it, what was; silences, rules, and where notices go.

import { Channels } from "../alerts/channels";
import { Firing } from "../alerts/firing";
import { History } from "../alerts/history";
import { Rules } from "../alerts/rules";
import { Silences } from "../alerts/silences";
import type { View } from "../router";

export const view: View = {
  path: "/alerts",
  title: "Alerts",
  nav: { label: "Alerts", key: "a", order: 3 },
  draw: () => (
    <>
      <h1>Alerts</h1>
      <Firing />
      <Silences />
      <Channels />
      <History />
      <Rules />
    </>
  ),
};
