import { setTimeout as sleep } from 'node:timers/promises'

/**
 * Asks again and again until there is an answer: for what happens in another process or by a timer of the product.
 * @throws when there is none after `timeoutMs`
 */
export async function eventually<T>(ask: () => Promise<T | undefined>, timeoutMs = 30_000): Promise<T> {
  const deadline = performance.now() + timeoutMs
  for (;;) {
    const response = await ask()
    if (response !== undefined) return response
    if (performance.now() > deadline) throw new Error(`nothing came of it in ${timeoutMs} ms`)
    await sleep(50)
  }
}
