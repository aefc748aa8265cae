// Where it begins: who is logged in, the right view for the address, the live stream.

import "./style.css";
import "./theme";
import { render } from "preact";
import { Page } from "./components/layout";
import { begin } from "./session";
import { showTally } from "./title";

const root = document.getElementById("app");
if (root) {
  render(<Page />, root);
  showTally();
  void begin();
}
