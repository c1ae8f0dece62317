import type { Asked } from '../host/requestContext.ts'

/** How often a client that waits for the owner hears that it still does. */
const everyMs = 5_000

export interface Progress {
  /** Called when the owner is asked; from then on the client is told, at once and every few seconds. */
  readonly begin: (asked: Asked) => void
  readonly stop: () => void
}

/**
 * Tells a client that the owner is being waited for. Seconds are what grows, because the protocol wants each value to be
 * higher than the one before (MCP 2025-11-25, "Progress").
 */
export function startProgress(
  waitSeconds: number,
  tell: (seconds: number, total: number, message: string) => void,
): Progress {
  let timer: NodeJS.Timeout | undefined
  return {
    begin({ approvalId, expiresAtMs }) {
      if (timer !== undefined || waitSeconds === 0) return
      const until = new Date(expiresAtMs).toISOString()
      const message = `The owner is asked (${approvalId}) and can answer until ${until}.`
      let seconds = 0
      const next = (): void => {
        tell(seconds, waitSeconds, message)
        seconds += everyMs / 1_000
      }
      next()
      timer = setInterval(next, everyMs)
      timer.unref()
    },
    stop() {
      clearInterval(timer)
    },
  }
}
