// Pure: text of strangers as a page may show it. Markup is no danger (everything is put in as text); what would still
// deceive a reader is made visible: control characters, escape sequences, and what turns the direction of writing.

const SHOWN_AS_IT_IS = new Set(["\n", "\t"]);
// Controls, soft hyphen, zero-width and bidirectional marks, line separators, tags, unpaired surrogates.
const HIDDEN =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]|\p{Surrogate}/gu;

function escaped(char: string): string {
  if (SHOWN_AS_IT_IS.has(char)) return char;
  const code = char.codePointAt(0) ?? 0;
  if (code <= 0xff) return `\\x${code.toString(16).padStart(2, "0")}`;
  return `\\u{${code.toString(16)}}`;
}

/** The text with everything that cannot be seen written out. A line break of either kind stays one. */
export function visible(text: string): string {
  return text.replaceAll("\r\n", "\n").replace(HIDDEN, escaped);
}

/** The same on one line. */
export function visibleLine(text: string): string {
  return visible(text).replaceAll("\n", "\\n").replaceAll("\t", " ");
}

/** At most so many characters of a text, its head and its tail, and how many were left out between them. */
export function clipped(text: string, charsMax: number): { head: string; tail: string; leftOut: number } {
  if (text.length <= charsMax) return { head: text, tail: "", leftOut: 0 };
  const half = Math.floor(charsMax / 2);
  return { head: text.slice(0, half), tail: text.slice(text.length - half), leftOut: text.length - 2 * half };
}
