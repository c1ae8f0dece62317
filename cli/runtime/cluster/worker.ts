import { on } from 'node:events'
import type { NetworkId } from '../../../core/domain/network.ts'
import type { JobLine } from '../../../core/ports/jobLine.ts'
import type { Change } from '../../../core/ports/store/changes.ts'
import { createLog } from '../createLog.ts'
import { giveBackHeap } from '../heap/giveBackHeap.ts'
import { openStack } from '../open/openStack.ts'
import { readConfigAgain } from '../readConfig.ts'
import { startDataPlane } from '../startDataPlane.ts'
import type { FromPrimary, FromWorker } from './messages.ts'
import { createPrimarySettling } from './settleInPrimary.ts'

/**
 * Runs the public listener in this process for the primary that forked it, until that one says stop or is gone. What is
 * configured comes from the primary, never from the file, which may be another by now.
 */
export async function runWorker(
  file: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<void> {
  // Without its primary nothing can be settled, and nobody would ever stop this process.
  process.once('disconnect', () => process.exit(1))
  // The terminal's Ctrl-C reaches the whole group; the primary decides when this process drains.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined)
  const send = (message: FromWorker) => void process.send?.(message)
  const messages = on(process, 'message')
  send({ type: 'ready' })
  const [begin] = (await messages.next()).value as [FromPrimary]
  if (begin.type !== 'begin') throw new Error(`expected the primary to say begin, got ${begin.type}`)

  const read = (text: string) => readConfigAgain({ file, text }, env)
  const { config } = await read(begin.startedText)
  const log = createLog(config.log)
  const settling = createPrimarySettling(send)
  const jobLine: JobLine = {
    isHere: false,
    post: (topic, note) => send({ type: 'note', topic, note }),
    hear: () => () => undefined,
  }
  const settled = new Set<NetworkId>(begin.networks)
  const stack = await openStack(config, {
    ...{ env, log, jobLine, runsJobs: false },
    wrapSettler: settling.wrap,
    mayOpen: (network) => settled.has(network),
  })
  const { plugins } = await read(begin.text)
  giveBackHeap()
  const data = await startDataPlane({ config, plugins }, stack, begin.adminUrl, begin.ownUrl)

  const reload = async (text: string) => {
    try {
      await data.reload(await read(text))
    } catch (error) {
      log.error(
        {},
        `a worker refused the new configuration, the old one goes on:\n${(error as Error).message}`,
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
  const hear = (change: Change) => {
    try {
      stack.ports.changes.publish(change)
    } catch (err) {
      log.error({ err, change }, 'a cache could not be told of a change')
    }
  }
  let reloads = Promise.resolve()

  function obey(message: FromPrimary): void {
    if (settling.receive(message)) return
    // One after the other: the last one stays.
    if (message.type === 'reload') reloads = reloads.then(() => reload(message.text))
    if (message.type === 'networks') {
      for (const network of message.networks) settled.add(network)
      void data.openMissing()
    }
    if (message.type === 'changed') hear(message.change)
    if (message.type === 'stop') void stop()
    if (message.type === 'read-metrics') void readMetrics(message.call)
    if (message.type === 'read-counts')
      send({ type: 'counts', call: message.call, calls: data.calls.counts() })
  }

  send({ type: 'listening', gatewayUrl: data.gatewayUrl })
  for await (const [message] of messages) obey(message as FromPrimary)
}
