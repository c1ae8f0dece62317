/** Freezes JSON all the way down, so that what was checked is what is done. */
export function freezeJson<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value
  for (const inner of Object.values(value)) freezeJson(inner)
  return Object.freeze(value)
}
