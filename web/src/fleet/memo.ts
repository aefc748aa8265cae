// A component that is drawn again only when its properties are others; signals it reads redraw it by themselves.

import { type ComponentChildren, Component, createElement, type FunctionComponent } from "preact";

export function memo<P extends object>(draw: (props: P) => ComponentChildren): FunctionComponent<P> {
  const Drawn = draw as FunctionComponent<P>;
  class Kept extends Component<P> {
    override shouldComponentUpdate(next: P): boolean {
      const before = this.props as Record<string, unknown>;
      return Object.entries(next).some(([name, value]) => before[name] !== value);
    }
    override render(): ComponentChildren {
      return createElement(Drawn as FunctionComponent<object>, this.props);
    }
  }
  return Kept as unknown as FunctionComponent<P>;
}
