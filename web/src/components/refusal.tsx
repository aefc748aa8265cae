// Why something was refused or cannot be read, where there is such a reason.

import { Trouble } from "./state";

export function Refusal({ why }: { why: string }) {
  return why === "" ? null : <Trouble>{why}</Trouble>;
}
