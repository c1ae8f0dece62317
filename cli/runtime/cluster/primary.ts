import cluster, { type Worker } from 'node:cluster'
import type { LoadedConfig } from '../../../core/config/loadConfig.ts'
import type { AnyGatewayPlugin } from '../../../core/plugin/gateway.ts'
import type { ProcessCalls } from '../../../core/ports/callCounts.ts'
import type { Metrics } from '../../../core/ports/metrics.ts'
import type { CallPlane } from '../../../gateway/callPlane.ts'
import { openStack } from '../open/openStack.ts'
import { does } from '../role.ts'
import { startCalls } from '../startCalls.ts'
import { startControlPlane } from '../startControlPlane.ts'
import type { StartOptions } from '../startTollgate.ts'
import { urlOf } from '../urlOf.ts'
import { mergeMetrics } from './mergeMetrics.ts'
import type { FromPrimary, FromWorker } from './messages.ts'
import { createWorkerSettling } from './settleForWorker.ts'

/** A process that served is followed at once, nearly; of those that can't even start, each is tried twice as late. */
const RESTART_MS = 1_000
const MAX_RESTART_MS = 30_000
const METRICS_TIMEOUT_MS = 2_000
/** Whoever watches looks every second: a worker that is late is seen as that. */
const COUNTS_TIMEOUT_MS = 500
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
  /** `/readyz` answers 503 from now on, also where a worker is asked; everything else goes on. */
  announceStop(): void
  close(): Promise<void>
}

export async function startPrimary(
  { config, plugins, text: startedText }: LoadedConfig<AnyGatewayPlugin>,
  { env, log, only }: StartOptions,
): Promise<Primary> {
  cluster.setupPrimary({ serialization: 'advanced' })
  const stack = await openStack(config, { env, log, runsJobs: does('jobs', only) })
  const { changes, jobLine } = stack.ports
  const closers = [() => stack.close()]
  const close = async (workersTimeoutMs: number) => {
    isStopping = true
    await stopWorkers(workersTimeoutMs)
    for (const closer of closers.splice(0).reverse()) await closer()
  }
  const listening = Promise.withResolvers<string>()
  let isStopping = false
  let text = startedText
  const networks = () => stack.chains.settlers.map(({ network }) => network)

  /** @param restartMs when another follows, should this one end before it listens */
  function fork(urls: { adminUrl: string; ownUrl: string }, restartMs = RESTART_MS): void {
    const worker = cluster.fork()
    const settling = createWorkerSettling(stack.chains, (message) => send(worker, message))
    let hasListened = false
    worker.on('message', (message: FromWorker) => {
      if (settling.receive(message)) return
      if (message.type === 'ready') {
        hearing.add(worker)
        send(worker, { type: 'begin', ...urls, startedText, text, networks: networks() })
      }
      if (message.type === 'listening') {
        hasListened = true
        listening.resolve(message.gatewayUrl)
      }
      if (message.type === 'note') jobLine.post(message.topic, message.note)
    })
    // What is said to one that was just killed does not arrive. Its end is told below; without this it would be this process's, too.
    worker.on('error', (err) => log.warn({ err }, 'a gateway process did not hear what it was told'))
    worker.once('exit', (code, signal) => {
      settling.lost()
      if (isStopping) return
      log.error({ code, signal }, 'a gateway process ended; starting another')
      listening.reject(new Error('A gateway process ended before it listened; its message is above.'))
      const waitMs = hasListened ? RESTART_MS : restartMs
      const next = Math.min(2 * waitMs, MAX_RESTART_MS)
      setTimeout(() => !isStopping && fork(urls, hasListened ? RESTART_MS : next), waitMs).unref()
    })
  }

  try {
    // Their plugins do the background work, which belongs to one process. Calls over HTTP enter the workers' only; those of
    // tools, which come by the admin API, enter these.
    // The workers offer a network once it can be settled on here.
    const plane = await startCalls({ config, plugins }, stack, () =>
      everyWorker({ type: 'networks', networks: networks() }),
    )
    const { linkCalls, calls } = plane
    closers.push(() => plane.close())
    const metrics = fleetMetrics(stack.ports.metrics)
    const data = {
      ...{ metrics, linkCalls, callCounts: fleetCounts(calls) },
      get generation() {
        return calls.generation
      },
    }
    const control = await startControlPlane(config, stack, data, only)
    const handedTo = does('admin', only) ? control.adminUrl : (config.admin.url ?? urlOf(config.admin))
    closers.push(() => control.close())
    const unsubscribe = changes.subscribe((change) => everyWorker({ type: 'changed', change }))
    closers.push(async () => unsubscribe())
    for (let i = 0; i < config.gateway.workers; i++) fork({ adminUrl: handedTo, ownUrl: control.adminUrl })
    return {
      adminUrl: control.adminUrl,
      gatewayUrl: await listening.promise,
      async reload(next) {
        await plane.reload(next)
        text = next.text
        everyWorker({ type: 'reload', text })
      },
      announceStop: control.announceStop,
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

let asked = 0

/** Asks a worker; undefined where it does not answer in time, or can't hear yet. */
const ask = <T extends 'metrics' | 'counts'>(worker: Worker, type: T, timeoutMs: number) =>
  new Promise<Extract<FromWorker, { type: T }> | undefined>((resolve) => {
    const call = ++asked
    const done = (answer?: Extract<FromWorker, { type: T }>) => {
      clearTimeout(timeout)
      worker.off('message', onMessage)
      resolve(answer)
    }
    const onMessage = (message: FromWorker) => {
      if (message.type === type && 'call' in message && message.call === call)
        done(message as Extract<FromWorker, { type: T }>)
    }
    const timeout = setTimeout(done, timeoutMs)
    worker.on('message', onMessage)
    send(worker, { type: `read-${type}`, call })
  })
const nameOf = (worker: Worker): string => `worker-${worker.id}`

/** `/metrics` of the whole fleet: this process and every worker that answers in time. */
function fleetMetrics(own: Pick<Metrics, 'source'>): Pick<Metrics, 'source'> {
  const text = async () => {
    const ofWorkers = workers().map(async (worker) => ({
      process: nameOf(worker),
      text: (await ask(worker, 'metrics', METRICS_TIMEOUT_MS))?.text ?? '',
    }))
    const ofPrimary = { process: 'primary', text: (await own.source?.text()) ?? '' }
    return mergeMetrics([ofPrimary, ...(await Promise.all(ofWorkers))])
  }
  return { source: { contentType: 'text/plain; version=0.0.4; charset=utf-8', text } }
}

/** The calls of the whole fleet: those of tools enter this process, all others the workers. */
const fleetCounts = (own: CallPlane) => async (): Promise<ProcessCalls[]> => {
  const ofWorkers = workers().map(async (worker) => ({
    process: nameOf(worker),
    calls: (await ask(worker, 'counts', COUNTS_TIMEOUT_MS))?.calls,
  }))
  return [{ process: 'primary', calls: own.counts() }, ...(await Promise.all(ofWorkers))]
}
