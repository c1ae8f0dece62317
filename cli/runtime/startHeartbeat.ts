import type { Log } from '../../core/ports/log.ts'
import type { Stack } from './openStack.ts'

const HEARTBEAT_MS = 2_000

/** Says every few seconds that this process lives, so that nobody takes its payments over. */
export async function startHeartbeat({ ports, store }: Stack, log: Log): Promise<{ stop(): void }> {
  const { instanceId } = ports.service
  await store.payments.heartbeat(instanceId)
  const timer = setInterval(() => {
    store.payments.heartbeat(instanceId).catch((err: unknown) => log.warn({ err }, 'heartbeat failed'))
  }, HEARTBEAT_MS)
  timer.unref()
  return { stop: () => clearInterval(timer) }
}
