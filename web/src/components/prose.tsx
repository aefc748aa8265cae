// The hub's sentences: what stands between backticks is a command, to be read letter by letter and copied.

export function Prose({ text }: { text: string }) {
  return <>{text.split("`").map((part, at) => (at % 2 === 1 ? <code key={at}>{part}</code> : part))}</>;
}
