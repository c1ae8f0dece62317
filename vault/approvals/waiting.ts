/** Those who wait for a decision, by its approval. */
export interface Waiting {
  /** Fulfilled when the approval is woken, after `waitMs`, or when the signal ends. */
  until(id: string, waitMs: number, signal?: AbortSignal): Promise<void>
  wake(id: string): void
  wakeAll(): void
}

export function createWaiting(): Waiting {
  const byId = new Map<string, Set<() => void>>()
  const wake = (id: string): void => {
    for (const go of byId.get(id) ?? []) go()
  }
  return {
    async until(id, waitMs, signal) {
      if (signal?.aborted === true) return
      const { promise, resolve } = Promise.withResolvers<void>()
      const timer = setTimeout(resolve, waitMs)
      const end = () => resolve()
      signal?.addEventListener('abort', end, { once: true })
      const own = byId.get(id) ?? new Set()
      byId.set(id, own.add(resolve))
      await promise
      clearTimeout(timer)
      signal?.removeEventListener('abort', end)
      own.delete(resolve)
      if (own.size === 0) byId.delete(id)
    },
    wake,
    wakeAll() {
      for (const id of byId.keys()) wake(id)
    },
  }
}
