// Which part of a long list is on the screen. Only that is drawn, and only that gets readings.

import { type ReadonlySignal, useSignal } from "@preact/signals";
import { type RefObject } from "preact";
import { useEffect, useRef } from "preact/hooks";

const OVERSCAN_ROWS = 4;

export interface Part {
  first: number;
  /** One after the last. */
  end: number;
}

/** The lines of a list that are on the screen, with some before and after. Pure. */
export function visible(topPx: number, screenPx: number, linePx: number, lines: number): Part {
  const first = Math.max(0, Math.floor(-topPx / linePx) - OVERSCAN_ROWS);
  const end = Math.min(lines, Math.ceil((screenPx - topPx) / linePx) + OVERSCAN_ROWS);
  return { first: Math.min(first, lines), end: Math.max(Math.min(first, lines), end) };
}

/** Follows scrolling and the window's size; the part changes only when other lines come into view. */
export function useWindow<E extends HTMLElement>(lines: number, linePx: number): [RefObject<E | null>, ReadonlySignal<Part>] {
  const place = useRef<E>(null);
  const part = useSignal<Part>({ first: 0, end: Math.min(lines, 30) });
  useEffect(() => {
    let asked = 0;
    const look = (): void => {
      asked = 0;
      const element = place.current;
      if (!element) return;
      const now = visible(element.getBoundingClientRect().top, window.innerHeight, linePx, lines);
      if (now.first !== part.peek().first || now.end !== part.peek().end) part.value = now;
    };
    const ask = (): void => {
      if (asked === 0) asked = requestAnimationFrame(look);
    };
    look();
    window.addEventListener("scroll", ask, { passive: true });
    window.addEventListener("resize", ask);
    const above = new ResizeObserver(ask); // a banner above grows: the list moves down
    above.observe(document.body);
    return () => {
      cancelAnimationFrame(asked);
      window.removeEventListener("scroll", ask);
      window.removeEventListener("resize", ask);
      above.disconnect();
    };
  }, [lines, linePx]);
  return [place, part];
}
