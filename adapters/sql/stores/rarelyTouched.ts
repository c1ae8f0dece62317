/** How exact `lastUsedAt` is: one write per key in this time. */
const TOUCH_EVERY_MS = 60_000
/** Keys whose last write is remembered. */
const MOST_REMEMBERED = 10_000

/** Says of a key that is used now whether that is to be written. */
export function rarelyTouched(): (id: string, atMs: number) => boolean {
  const touchedAtMs = new Map<string, number>()
  return (id, atMs) => {
    const last = touchedAtMs.get(id)
    if (last !== undefined && atMs - last < TOUCH_EVERY_MS) return false
    if (touchedAtMs.size >= MOST_REMEMBERED) touchedAtMs.clear()
    touchedAtMs.set(id, atMs)
    return true
  }
}
