import type { LoadedConfig } from '../../../core/config/load.ts'
import type { AnyGatewayPlugin } from '../../../core/plugin/gateway.ts'
import type { JobLine } from '../../../core/ports/jobLine.ts'
import type { Log } from '../../../core/ports/log.ts'
import { openStack } from '../openStack.ts'
import { startDataPlane } from '../startDataPlane.ts'
import { startHeartbeat } from '../startHeartbeat.ts'
import type { FromPrimary, FromWorker } from './messages.ts'
import { adminUrlVariable } from './primary.ts'
import { createPrimarySettling } from './settleInPrimary.ts'

/**
 * Runs the public listener in this process for the primary that forked it, until that one says stop or is gone.
 *
 * @param readAgain reads the configuration anew, for a reload
 */
export async function runWorker(
  loaded: LoadedConfig<AnyGatewayPlugin>,
  readAgain: () => Promise<LoadedConfig<AnyGatewayPlugin>>,
  { env, log }: { readonly env: Readonly<Record<string, string | undefined>>; readonly log: Log },
): Promise<void> {
  const send = (message: FromWorker) => void process.send?.(message)
  const settling = createPrimarySettling(send)
  const jobLine: JobLine = {
    post: (topic, note) => send({ type: 'note', topic, note }),
    hear: () => () => undefined,
  }
  const { wrap: wrapSettler } = settling
  const stack = await openStack(loaded.config, { env, log, runsJobs: false, wrapSettler, jobLine })
  const heartbeat = await startHeartbeat(stack, log)
  const data = await startDataPlane(loaded, stack, env[adminUrlVariable]!)

  const reload = async () => {
    try {
      await data.reload(await readAgain())
    } catch (error) {
      log.error(
        {},
        `a worker refused the new configuration, the old one goes on:\n${(error as Error).message}`,
      )
    }
  }
  const stop = async () => {
    await data.close()
    heartbeat.stop()
    await stack.close()
    process.exit(0)
  }
  process.on('message', (message: FromPrimary) => {
    if (settling.receive(message)) return
    if (message.type === 'reload') void reload()
    if (message.type === 'stop') void stop()
    if (message.type === 'read-metrics') void readMetrics(message.call)
  })
  const readMetrics = async (call: number) =>
    send({ type: 'metrics', call, text: (await stack.ports.metrics.source?.text()) ?? '' })
  // Without its primary nothing can be settled, and nobody would ever stop this process.
  process.once('disconnect', () => process.exit(1))
  // The terminal's Ctrl-C reaches the whole group; the primary decides when this process drains.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined)
  send({ type: 'listening', gatewayUrl: data.gatewayUrl })
}
