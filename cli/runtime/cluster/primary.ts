import cluster, { type Worker } from 'node:cluster'
import type { LoadedConfig } from '../../../core/config/loadConfig.ts'
import type { AnyGatewayPlugin } from '../../../core/plugin/gateway.ts'
import type { ProcessCalls } from '../../../core/ports/callCounts.ts'
import type { Metrics } from '../../../core/ports/metrics.ts'
import type { CallPlane } from '../../../gateway/callPlane.ts'
import { urlOf } from '../gatewayUrl.ts'
import { openStack } from '../open/openStack.ts'
import { does } from '../role.ts'
import { SettlementServer } from '../settling/settlementServer.ts'
import { startCalls } from '../startCalls.ts'
import { startControlPlane } from '../startControlPlane.ts'
import type { StartOptions } from '../startTollgate.ts'
import type { FromPrimary, FromWorker } from './messages.ts'

/**
 * Delay before a worker is restarted, in ms. A worker that had served calls is restarted almost at once. If a worker cannot
 * start, the delay doubles each time.
 */
const RESTART_MS = 1_000
const MAX_RESTART_MS = 30_000
const METRICS_TIMEOUT_MS = 2_000
/**
 * Timeout of a request for a worker's counts, in ms. Viewers poll every second. A worker that responds later is shown as not
 * reporting.
 */
const COUNTS_TIMEOUT_MS = 500
/**
 * How long a worker may run after its drain before the primary kills it, in ms. It is shorter than the time after which the
 * primary ends itself.
 */
const WORKER_CLOSE_MS = 2_000

/**
 * All processes of a gateway on one machine. The admin API, the settlers and the background jobs run in this process. The
 * public listener runs in each worker.
 */
export interface Primary {
  readonly adminUrl: string
  /** URL of the listener that the workers share. It is available once a worker listens. */
  readonly gatewayUrl: string
  /**
   * Starts the background jobs of a newly read configuration, then reloads the workers.
   * @throws if the configuration is invalid. Nothing has changed then
   */
  reload(next: LoadedConfig<AnyGatewayPlugin>): Promise<void>
  /** From now on, `/readyz` responds with 503, also in the workers. Everything else continues. */
  announceStop(): void
  close(): Promise<void>
}

export async function startPrimary(
  { config, plugins, text: startedText }: LoadedConfig<AnyGatewayPlugin>,
  { env, log, only }: StartOptions,
): Promise<Primary> {
  cluster.setupPrimary({ serialization: 'advanced' })
  const stack = await openStack(config, { env, log, runsJobs: does('jobs', only) })
  const { changes, jobChannel } = stack.ports
  const closers = [() => stack.close()]
  const close = async (workersTimeoutMs: number) => {
    isStopping = true
    await stopWorkers(workersTimeoutMs)
    for (const closer of closers.splice(0).reverse()) await closer()
  }
  const listening = Promise.withResolvers<string>()
  let isStopping = false
  let isListening = false
  let text = startedText
  const networks = () => stack.chains.settlers.map(({ network }) => network)

  /** @param restartMs delay before the next worker if this worker ends before it listens */
  function fork(urls: { adminUrl: string; ownUrl: string }, restartMs = RESTART_MS): void {
    const worker = cluster.fork()
    const settling = new SettlementServer(stack.chains, (message) => send(worker, message))
    let hasListened = false
    worker.on('message', (message: FromWorker) => {
      if (settling.receive(message)) return
      if (message.type === 'ready') {
        connected.add(worker)
        send(worker, { type: 'begin', ...urls, startedText, text, networks: networks() })
      }
      if (message.type === 'listening') {
        hasListened = true
        isListening = true
        listening.resolve(message.gatewayUrl)
      }
      if (message.type === 'note') jobChannel.post(message.topic, message.note)
    })
    // A message to a worker that was just killed cannot be delivered. Without this handler, that error would end this process
    // too. The worker's exit is handled below.
    worker.on('error', (err) => log.warn({ err }, 'a gateway process did not receive a message'))
    worker.once('exit', (code, signal) => {
      settling.lost()
      if (isStopping) return
      log.error({ code, signal }, 'a gateway process ended, so another process is started')
      listening.reject(new Error('A gateway process ended before it listened. Its message is above.'))
      const waitMs = hasListened ? RESTART_MS : restartMs
      const next = Math.min(2 * waitMs, MAX_RESTART_MS)
      setTimeout(() => !isStopping && fork(urls, hasListened ? RESTART_MS : next), waitMs).unref()
    })
  }

  try {
    // The plugins of this process run their background jobs and the tool calls, which arrive at the admin API. HTTP calls use
    // the workers' plugins. The workers offer a network once this process can settle on it.
    const plane = await startCalls({ config, plugins }, stack, () =>
      everyWorker({ type: 'networks', networks: networks() }),
    )
    const { linkCalls, calls } = plane
    closers.push(() => plane.close())
    const metrics = fleetMetrics(stack.ports.metrics)
    const data = {
      metrics,
      linkCalls,
      callCounts: fleetCounts(calls),
      get generation() {
        return calls.generation
      },
      get isListening() {
        return isListening
      },
    }
    const control = await startControlPlane(config, stack, data, only)
    const target = does('admin', only) ? control.adminUrl : (config.admin.url ?? urlOf(config.admin))
    closers.push(() => control.close())
    const unsubscribe = changes.subscribe((change) => everyWorker({ type: 'changed', change }))
    closers.push(async () => unsubscribe())
    for (let i = 0; i < config.gateway.workers; i++) fork({ adminUrl: target, ownUrl: control.adminUrl })
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

/** Workers that listen for messages. A message that is sent to a worker before that would be lost. */
const connected = new WeakSet<Worker>()

function send(worker: Worker, message: FromPrimary): void {
  if (connected.has(worker) && worker.isConnected()) worker.send(message)
}

function everyWorker(message: FromPrimary): void {
  for (const worker of workers()) send(worker, message)
}

async function stopWorkers(timeoutMs: number): Promise<void> {
  const ended = workers().map((worker) => new Promise((resolve) => worker.once('exit', resolve)))
  everyWorker({ type: 'stop' })
  for (const worker of workers()) if (!connected.has(worker)) worker.process.kill('SIGKILL')
  const cut = setTimeout(() => {
    for (const worker of workers()) worker.process.kill('SIGKILL')
  }, timeoutMs)
  await Promise.all(ended)
  clearTimeout(cut)
}

let queried = 0

/** Sends a request to a worker. Undefined if the worker does not respond in time or does not listen for messages yet. */
const queryWorker = <T extends 'metrics' | 'counts'>(worker: Worker, type: T, timeoutMs: number) =>
  new Promise<Extract<FromWorker, { type: T }> | undefined>((resolve) => {
    const call = ++queried
    const done = (response?: Extract<FromWorker, { type: T }>) => {
      clearTimeout(timeout)
      worker.off('message', onMessage)
      resolve(response)
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

/** `/metrics` of all processes, which are this process and every worker that responds in time. */
function fleetMetrics(own: Pick<Metrics, 'source'>): Pick<Metrics, 'source'> {
  const text = async () => {
    const ofWorkers = workers().map(async (worker) => ({
      process: nameOf(worker),
      text: (await queryWorker(worker, 'metrics', METRICS_TIMEOUT_MS))?.text ?? '',
    }))
    const ofPrimary = { process: 'primary', text: (await own.source?.text()) ?? '' }
    return mergeMetrics([ofPrimary, ...(await Promise.all(ofWorkers))])
  }
  return { source: { contentType: 'text/plain; version=0.0.4; charset=utf-8', text } }
}

/** Counts of the calls of all processes. Tool calls are made in this process, and all other calls in the workers. */
const fleetCounts = (own: CallPlane) => async (): Promise<ProcessCalls[]> => {
  const ofWorkers = workers().map(async (worker) => ({
    process: nameOf(worker),
    calls: (await queryWorker(worker, 'counts', COUNTS_TIMEOUT_MS))?.calls,
  }))
  return [{ process: 'primary', calls: own.counts() }, ...(await Promise.all(ofWorkers))]
}

/** The metrics of one process in the Prometheus text format. */
interface ProcessMetrics {
  readonly process: string
  readonly text: string
}

/**
 * Merges the metrics of several processes. Each sample gets the label `process`. The format requires that each metric has its
 * HELP and TYPE once and its samples in one block.
 */
export function mergeMetrics(all: readonly ProcessMetrics[]): string {
  const blocks = new Map<string, { head: string[]; samples: string[] }>()
  for (const { process, text } of all) {
    let block: { head: string[]; samples: string[] } | undefined
    for (const line of text.split('\n')) {
      if (line === '') continue
      if (!line.startsWith('#')) {
        block?.samples.push(labelled(line, process))
        continue
      }
      const name = line.split(' ', 3)[2]!
      block = blocks.get(name)
      if (block === undefined) blocks.set(name, (block = { head: [], samples: [] }))
      if (!block.head.includes(line)) block.head.push(line)
    }
  }
  return [...blocks.values()]
    .flatMap(({ head, samples }) => [...head, ...samples])
    .join('\n')
    .concat('\n')
}

function labelled(sample: string, process: string): string {
  const label = `process="${process}"`
  const brace = sample.indexOf('{')
  const space = sample.indexOf(' ')
  if (brace !== -1 && brace < space) return `${sample.slice(0, brace + 1)}${label},${sample.slice(brace + 1)}`
  return `${sample.slice(0, space)}{${label}}${sample.slice(space)}`
}
