/** What a service manager, a terminal and Kubernetes stop a process with. */
export const stopSignals = ['SIGTERM', 'SIGINT'] as const
export type StopSignal = (typeof stopSignals)[number]

export interface Stopping {
  /** Called at the first signal, before the delay. */
  announce(signal: StopSignal): void
  /** Called once, when the delay is over. */
  stop(): void
}

/**
 * Stops in steps. The first signal announces the stop, and the process serves for `delayMs` more. A second signal ends that delay.
 * One that comes during the stop itself ends the process at once, with status 1.
 */
export function onStopSignals(delayMs: number, { announce, stop }: Stopping): void {
  let state: 'serving' | 'announced' | 'stopping' = 'serving'
  let delay: NodeJS.Timeout | undefined
  const begin = () => {
    clearTimeout(delay)
    state = 'stopping'
    stop()
  }
  const onSignal = (signal: StopSignal) => {
    if (state === 'stopping') process.exit(1)
    if (state === 'announced') return begin()
    state = 'announced'
    announce(signal)
    if (delayMs === 0) begin()
    else delay = setTimeout(begin, delayMs)
  }
  for (const signal of stopSignals) process.on(signal, onSignal)
}
