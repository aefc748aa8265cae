// Addresses after the #: patterns of views, and links that let somebody in. Pure.

export function match(pattern: string, path: string): Record<string, string> | null {
  const wanted = pattern.split("/");
  const given = path.split("/");
  if (wanted.length !== given.length) return null;
  const params: Record<string, string> = {};
  for (const [at, part] of wanted.entries()) {
    const text = given[at] ?? "";
    if (part.startsWith(":")) {
      const value = decoded(text);
      if (value === "") return null;
      params[part.slice(1)] = value;
    } else if (part !== text) return null;
  }
  return params;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}

/** What a link's address says: its secret stands behind the #, so no server but ours ever sees it. */
export function linkIn(path: string): { kind: "login" | "setup"; code: string } | null {
  const found = /^\/(login|setup)\/([\w-]{1,128})$/.exec(path);
  return found ? { kind: found[1] as "login" | "setup", code: found[2] ?? "" } : null;
}
