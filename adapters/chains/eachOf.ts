/**
 * Works through items, so many at a time. One that fails is left out, and fails for itself alone: `work` notes what it
 * finds by itself.
 */
export async function eachOf<T>(
  items: readonly T[],
  atOnce: number,
  work: (item: T) => Promise<unknown>,
): Promise<void> {
  let next = 0
  const takeNext = async (): Promise<void> => {
    for (let i = next++; i < items.length; i = next++) await work(items[i]!).catch(() => {})
  }
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, takeNext))
}
