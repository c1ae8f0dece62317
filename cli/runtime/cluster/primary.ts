import cluster, { type Worker } from 'node:cluster'
import type { LoadedConfig } from '../../../core/config/loadConfig.ts'
import { buildGeneration } from '../../../core/kernel/generation.ts'
import type { AnyGatewayPlugin } from '../../../core/plugin/gateway.ts'
import type { Log } from '../../../core/ports/log.ts'
import type { Metrics } from '../../../core/ports/metrics.ts'
import { LiveGeneration } from '../../../gateway/liveGeneration.ts'
import { builtInPlugins } from '../../../plugins/builtIn.ts'
import { openLate } from '../openLate.ts'
import { openStack } from '../openStack.ts'
import { startControlPlane } from '../startControlPlane.ts'
import { mergeMetrics } from './mergeMetrics.ts'
import type { FromPrimary, FromWorker } from './messages.ts'
import { createWorkerSettling } from './settleForWorker.ts'

/** A process that served is followed at once, nearly; of those that can't even start, each is tried twice as late. */
const RESTART_MS = 1_000
const MAX_RESTART_MS = 30_000
const METRICS_TIMEOUT_MS = 2_000
/** How long a worker may take beyond the drain before it is cut: less than the primary has until it ends itself. */
const WORKER_CLOSE_MS = 2_000

/** A fleet on one machine: the admin API, the settlers and the background work here, the public listener in each worker. */
export interface Primary {
  readonly adminUrl: string
  /** Where the workers listen; known once one of them does. */
  readonly gatewayUrl: string
  /**
   * Does the background work of a newly read configuration, then has the workers read it.
   * @throws what does not hold; then nothing has changed
   */
  reload(next: LoadedConfig<AnyGatewayPlugin>): Promise<void>
  close(): Promise<void>
}

export async function startPrimary(
  { config, plugins, text: startedText }: LoadedConfig<AnyGatewayPlugin>,
  { env, log }: { readonly env: Readonly<Record<string, string | undefined>>; readonly log: Log },
): Promise<Primary> {
  cluster.setupPrimary({ serialization: 'advanced' })
  const stack = await openStack(config, { env, log, runsJobs: true })
  const { links, changes, jobLine } = stack.ports
  const closers = [() => stack.close()]
  const close = async (workersTimeoutMs: number) => {
    isStopping = true
    await stopWorkers(workersTimeoutMs)
    for (const closer of closers.splice(0).reverse()) await closer()
  }
  const first = Promise.withResolvers<string>()
  let isStopping = false
  let text = startedText
  const networks = () => stack.chains.settlers.map(({ network }) => network)

  /** @param restartMs when another follows, should this one end before it listens */
  function fork(adminUrl: string, restartMs = RESTART_MS): void {
    const worker = cluster.fork()
    const settling = createWorkerSettling(stack.chains, (message) => send(worker, message))
    let hasListened = false
    worker.on('message', (message: FromWorker) => {
      if (settling.receive(message)) return
      if (message.type === 'ready') {
        hearing.add(worker)
        send(worker, { type: 'begin', adminUrl, startedText, text, networks: networks() })
      }
      if (message.type === 'listening') {
        hasListened = true
        first.resolve(message.gatewayUrl)
      }
      if (message.type === 'note') jobLine.post(message.topic, message.note)
    })
    worker.once('exit', (code, signal) => {
      settling.lost()
      if (isStopping) return
      log.error({ code, signal }, 'a gateway process ended; starting another')
      first.reject(new Error('A gateway process ended before it listened; its message is above.'))
      const waitMs = hasListened ? RESTART_MS : restartMs
      const next = Math.min(2 * waitMs, MAX_RESTART_MS)
      setTimeout(() => !isStopping && fork(adminUrl, hasListened ? RESTART_MS : next), waitMs).unref()
    })
  }

  try {
    const control = await startControlPlane(config, stack, fleetMetrics(stack.ports.metrics))
    closers.push(() => control.close())
    // No call ever enters these: their plugins do the background work, which belongs to one process.
    const live = new LiveGeneration(
      await buildGeneration(plugins, stack.ports, { known: builtInPlugins }),
      links,
      changes,
      stack.ports.clock,
    )
    closers.push(() => live.close())
    const unsubscribe = changes.subscribe((change) => everyWorker({ type: 'changed', change }))
    closers.push(async () => unsubscribe())
    // The workers offer a network once it can be settled on here.
    const late = openLate(stack.chains, () => everyWorker({ type: 'networks', networks: networks() }))
    closers.push(async () => late.stop())
    for (let i = 0; i < config.gateway.workers; i++) fork(control.adminUrl)
    return {
      adminUrl: control.adminUrl,
      gatewayUrl: await first.promise,
      async reload(next) {
        await live.swap(await buildGeneration(next.plugins, stack.ports, { known: builtInPlugins }))
        text = next.text
        everyWorker({ type: 'reload', text })
      },
      close: () => close(config.gateway.drainTimeoutMs + WORKER_CLOSE_MS),
    }
  } catch (error) {
    await close(1_000)
    throw error
  }
}

const workers = (): Worker[] => Object.values(cluster.workers ?? {}).filter((worker) => worker !== undefined)

/** Workers that take messages; what is sent to one before would be lost. */
const hearing = new WeakSet<Worker>()

function send(worker: Worker, message: FromPrimary): void {
  if (hearing.has(worker) && worker.isConnected()) worker.send(message)
}

function everyWorker(message: FromPrimary): void {
  for (const worker of workers()) send(worker, message)
}

async function stopWorkers(timeoutMs: number): Promise<void> {
  const ended = workers().map((worker) => new Promise((resolve) => worker.once('exit', resolve)))
  everyWorker({ type: 'stop' })
  for (const worker of workers()) if (!hearing.has(worker)) worker.process.kill('SIGKILL')
  const cut = setTimeout(() => {
    for (const worker of workers()) worker.process.kill('SIGKILL')
  }, timeoutMs)
  await Promise.all(ended)
  clearTimeout(cut)
}

/** `/metrics` of the whole fleet: this process and every worker that answers in time. */
function fleetMetrics(own: Metrics): Metrics {
  let calls = 0
  const ask = (worker: Worker) =>
    new Promise<string>((resolve) => {
      const call = ++calls
      const done = (text: string) => {
        clearTimeout(timeout)
        worker.off('message', onMessage)
        resolve(text)
      }
      const onMessage = (message: FromWorker) => {
        if (message.type === 'metrics' && message.call === call) done(message.text)
      }
      const timeout = setTimeout(done, METRICS_TIMEOUT_MS, '')
      worker.on('message', onMessage)
      send(worker, { type: 'read-metrics', call })
    })
  const text = async () => {
    const ofWorkers = workers().map(async (worker) => ({
      process: `worker-${worker.id}`,
      text: await ask(worker),
    }))
    const ofPrimary = { process: 'primary', text: (await own.source?.text()) ?? '' }
    return mergeMetrics([ofPrimary, ...(await Promise.all(ofWorkers))])
  }
  return {
    register: (source) => own.register(source),
    source: { contentType: 'text/plain; version=0.0.4; charset=utf-8', text },
  }
}
