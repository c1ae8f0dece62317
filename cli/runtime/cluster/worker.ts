import { on } from 'node:events'
import type { NetworkId } from '../../../core/domain/network.ts'
import type { JobChannel } from '../../../core/ports/jobChannel.ts'
import type { Change } from '../../../core/ports/store/changes.ts'
import { createLog } from '../createLog.ts'
import { releaseHeap } from '../heap/releaseHeap.ts'
import { openStack } from '../open/openStack.ts'
import { readConfigAgain } from '../readConfig.ts'
import { SettlementClient } from '../settling/settlementClient.ts'
import { startDataPlane } from '../startDataPlane.ts'
import type { FromPrimary, FromWorker } from './messages.ts'

/**
 * Runs the public listener for the primary that forked this process, until the primary stops it or ends. The configuration
 * comes from the primary, because the file may have changed.
 */
export async function runWorker(
  file: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<void> {
  // Without its primary, this process cannot settle, and no signal would stop it.
  process.once('disconnect', () => process.exit(1))
  // The terminal sends Ctrl-C to the whole process group. This process ignores it, because the primary decides when a worker
  // drains.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined)
  const send = (message: FromWorker) => void process.send?.(message)
  const messages = on(process, 'message')
  send({ type: 'ready' })
  const [begin] = (await messages.next()).value as [FromPrimary]
  if (begin.type !== 'begin') throw new Error(`expected the primary to send begin, got ${begin.type}`)

  const read = (text: string) => readConfigAgain({ file, text }, env)
  const { config } = await read(begin.startedText)
  const log = createLog(config.log)
  const settling = new SettlementClient(send)
  const jobChannel: JobChannel = {
    isHere: false,
    post: (topic, note) => send({ type: 'note', topic, note }),
    listen: () => () => undefined,
  }
  const settled = new Set<NetworkId>(begin.networks)
  const stack = await openStack(config, {
    env,
    log,
    jobChannel,
    runsJobs: false,
    wrapSettler: settling.wrap,
    mayOpen: (network) => settled.has(network),
  })
  const { plugins } = await read(begin.text)
  releaseHeap()
  const data = await startDataPlane({ config, plugins }, stack, begin.adminUrl, begin.ownUrl)

  const reload = async (text: string) => {
    try {
      await data.reload(await read(text))
    } catch (error) {
      log.error(
        {},
        `a worker refused the new configuration and keeps the old one:\n${(error as Error).message}`,
      )
    }
  }
  const stop = async () => {
    await data.close()
    await stack.close()
    process.exit(0)
  }
  const readMetrics = async (call: number) =>
    send({ type: 'metrics', call, text: (await stack.ports.metrics.source?.text()) ?? '' })
  const onChange = (change: Change) => {
    try {
      stack.ports.changes.publish(change)
    } catch (err) {
      log.error({ err, change }, 'a cache could not be updated after a change')
    }
  }
  let reloads = Promise.resolve()

  function obey(message: FromPrimary): void {
    if (settling.receive(message)) return
    // Reloads run in order, so the last reload wins.
    if (message.type === 'reload') reloads = reloads.then(() => reload(message.text))
    if (message.type === 'networks') {
      for (const network of message.networks) settled.add(network)
      void data.openMissing()
    }
    if (message.type === 'changed') onChange(message.change)
    if (message.type === 'stop') void stop()
    if (message.type === 'read-metrics') void readMetrics(message.call)
    if (message.type === 'read-counts')
      send({ type: 'counts', call: message.call, calls: data.calls.counts() })
  }

  send({ type: 'listening', gatewayUrl: data.gatewayUrl })
  for await (const [message] of messages) obey(message as FromPrimary)
}
