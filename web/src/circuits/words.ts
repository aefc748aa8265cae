// Pure: names and labels of circuits as people type them.

const NAME_CHARS_MAX = 64;

/** A name the hub takes, from a file's. */
export function circuitName(file: string): string {
  return file
    .replace(/\.zkey$/i, "")
    .replace(/[^A-Za-z0-9._-]+/g, "-")
    .replace(/^[^A-Za-z0-9]+/, "")
    .slice(0, NAME_CHARS_MAX);
}

export function labelsText(labels: Readonly<Record<string, string>>): string {
  return Object.entries(labels)
    .map(([name, value]) => `${name}=${value}`)
    .join(", ");
}

/** A label without a value is refused: it would let in more nodes than was meant. */
export class LabelsRefused extends Error {}

export function parseLabels(text: string): Record<string, string> {
  const labels: Record<string, string> = {};
  for (const part of text.split(",").map((one) => one.trim())) {
    if (part === "") continue;
    const at = part.indexOf("=");
    const name = part.slice(0, Math.max(0, at)).trim();
    const value = part.slice(at + 1).trim();
    if (at < 1 || name === "" || value === "") throw new LabelsRefused(`"${part}" is no label; write name=value`);
    labels[name] = value;
  }
  return labels;
}
