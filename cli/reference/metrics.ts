import { createMetrics } from '../../adapters/metrics/metrics.ts'
import { markdownTable } from '../../core/config/docs.ts'
import { startJob } from '../../core/jobs/job.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'
import { silentLog } from '../../core/ports/log.ts'
import metricsPlugin from '../../plugins/metrics/index.ts'
import { type StandingDeps, withStanding } from '../runtime/standingMetrics.ts'

/**
 * Every metric of the service with its labels. They come from `/metrics` of a gateway with one settling key, after one call.
 */
export async function metricsReference(): Promise<string> {
  const text = await sampleText()
  const helps = new Map([...text.matchAll(/^# HELP (\S+) (.+)$/gm)].map(([, name, help]) => [name!, help!]))
  const rows = [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name, type]) => [
    `\`${name}\``,
    type!,
    labelsOf(text, name!)
      .map((label) => `\`${label}\``)
      .join(', ') || '–',
    helps.get(name!) ?? '',
  ])
  return markdownTable([['Metric', 'Type', 'Labels', 'What it says'], ...rows])
}

/** The label names of a metric, without a histogram's `le`. */
function labelsOf(text: string, name: string): string[] {
  const samples = [...text.matchAll(new RegExp(`^${name}(?:_bucket)?\\{(.*)\\} `, 'gm'))]
  const labels = samples.flatMap(([, inner]) => [...inner!.matchAll(/(\w+)="/g)].map(([, label]) => label!))
  return [...new Set(labels)].filter((label) => label !== 'le')
}

async function sampleText(): Promise<string> {
  const { metrics, settled } = createMetrics()
  settled('eip155:8453', 'settled', 1)
  const ports = { metrics, clock: { now: () => 0 } }
  const { route, start } = await metricsPlugin.setup({ perLink: false, processMetrics: false }, {
    ports,
  } as never)
  const hooks = route({ link: {}, isPaid: true } as never)
  hooks?.log?.({
    outcome: 'paid',
    upstreamOutcome: 'answered',
    errorCode: null,
    status: 200,
    startedAtMs: 0,
    sellerMs: 1,
  } as Exchange)
  await start?.()
  const job = startJob({ name: 'expire payment sessions', everyMs: 60_000, log: silentLog, run() {} })
  const standing = withStanding(metrics, gatewayWithOneKey)
  const text = await standing.source!.text()
  await job.stop()
  return text
}

const gatewayWithOneKey = {
  readiness: async () => [{ part: 'database', network: undefined, problems: [] }],
  chains: {
    settlers: [
      {
        network: 'eip155:8453',
        isExclusive: true,
        keys: [
          {
            id: 'evm:eip155:8453:0xabc',
            readState: async () => ({ balance: 1n, paymentsLeft: 1n, inFlight: 0 }),
          },
        ],
      },
    ],
  },
  counters: { isShared: async () => true },
  leases: { holderOf: async () => undefined },
  operatorView: {
    backlog: async () => ({ open: { claimed: 0 }, refundsDue: 0, webhooksWaiting: 0, linksSuspended: 0 }),
  },
} as unknown as StandingDeps
