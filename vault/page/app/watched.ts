import { useLayoutEffect, useState } from 'preact/hooks'

/** Re-renders the component whenever the watched value changes. */
export function useWatched(watch: (listener: () => void) => () => void): void {
  const [, redraw] = useState(0)
  useLayoutEffect(() => watch(() => redraw((before) => before + 1)), [])
}
