import cluster, { type Worker } from 'node:cluster'
import type { LoadedConfig } from '../../../core/config/load.ts'
import { buildGeneration } from '../../../core/kernel/generation.ts'
import type { AnyGatewayPlugin } from '../../../core/plugin/gateway.ts'
import type { Log } from '../../../core/ports/log.ts'
import type { Metrics } from '../../../core/ports/metrics.ts'
import { Generations } from '../../../gateway/generations.ts'
import { openStack } from '../openStack.ts'
import { startControlPlane } from '../startControlPlane.ts'
import { mergeMetrics } from './mergeMetrics.ts'
import type { FromPrimary, FromWorker } from './messages.ts'
import { createWorkerSettling } from './settleForWorker.ts'

const RESTART_MS = 1_000
const METRICS_TIMEOUT_MS = 2_000

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

/** The name under which a worker finds the admin API in its environment. */
export const adminUrlVariable = 'TOLLGATE_CLUSTER_ADMIN_URL'

export async function startPrimary(
  { config, plugins }: LoadedConfig<AnyGatewayPlugin>,
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

  function fork(adminUrl: string): void {
    const worker = cluster.fork({ [adminUrlVariable]: adminUrl })
    const settling = createWorkerSettling(stack.chains, (message) => send(worker, message))
    worker.on('message', (message: FromWorker) => {
      if (settling.receive(message)) return
      if (message.type === 'listening') first.resolve(message.gatewayUrl)
      if (message.type === 'note') jobLine.post(message.topic, message.note)
    })
    worker.once('exit', (code, signal) => {
      settling.lost()
      if (isStopping) return
      log.error({ code, signal }, 'a gateway process ended; starting another')
      first.reject(new Error('A gateway process ended before it listened; its message is above.'))
      setTimeout(() => !isStopping && fork(adminUrl), RESTART_MS).unref()
    })
  }

  try {
    const control = await startControlPlane(config, stack, fleetMetrics(stack.ports.metrics))
    closers.push(() => control.close())
    // No call ever enters these: their plugins do the background work, which belongs to one process.
    const generations = new Generations(
      await buildGeneration(plugins, stack.ports),
      links,
      changes,
      stack.ports.clock,
    )
    closers.push(() => generations.close())
    for (let i = 0; i < config.gateway.workers; i++) fork(control.adminUrl)
    return {
      adminUrl: control.adminUrl,
      gatewayUrl: await first.promise,
      async reload(next) {
        await generations.swap(await buildGeneration(next.plugins, stack.ports))
        everyWorker({ type: 'reload' })
      },
      close: () => close(config.gateway.drainTimeoutMs + 5_000),
    }
  } catch (error) {
    await close(1_000)
    throw error
  }
}

const workers = (): Worker[] => Object.values(cluster.workers ?? {}).filter((worker) => worker !== undefined)

function send(worker: Worker, message: FromPrimary): void {
  if (worker.isConnected()) worker.send(message)
}

function everyWorker(message: FromPrimary): void {
  for (const worker of workers()) send(worker, message)
}

async function stopWorkers(timeoutMs: number): Promise<void> {
  const ended = workers().map((worker) => new Promise((resolve) => worker.once('exit', resolve)))
  everyWorker({ type: 'stop' })
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
