import type { FastifyInstance } from 'fastify'
import { formatAmount } from '../../core/domain/money.ts'
import { familyOf, type NetworkId } from '../../core/domain/network.ts'
import type { PaymentRecord } from '../../core/domain/payment.ts'
import { type Job, runningJobs } from '../../core/jobs/job.ts'
import type { Api, SettlingReport } from '../deps.ts'
import { exactly, field, isoTime, listOf, ok, respond, success } from '../http/responses.ts'
import { channelTotals, channelTotalsOf } from '../purchases/channelRoutes.ts'
import { operatorOnly } from './operatorRoutes.ts'

/** Maximum number of payments of each kind in the response. A flag tells whether there are more. */
const SHOWN = 50
/**
 * After this many postponements, each a minute or two long, a payment waits for the operator. `tollgate doctor` uses the same
 * number.
 */
const PARKED_TRIES = 5

const payment = exactly({
  purchaseId: field.text(),
  storeId: field.text(),
  state: field.text(),
  network: field.text('CAIP-2.'),
  amount: field.text(),
  payer: field.text(),
  txHash: field.textOrNull(),
  tries: field.count,
  reason: field.textOrNull('Why the payment waits.'),
  since: field.time,
})

const payments = exactly({ rows: listOf(payment), hasMore: field.flag })

const job = exactly({
  name: field.text('What the job does.'),
  lastRunAt: field.timeOrNull,
  lastDurationMs: field.countOrNull,
  lastError: field.textOrNull(
    'The error of the last run, or a note that the run has not ended. Null if the last run succeeded.',
  ),
})

const status = exactly({
  problems: listOf(field.text('What keeps the service from working.')),
  networks: listOf(
    exactly({ network: field.text('CAIP-2.'), isOpen: field.flag, problems: listOf(field.text()) }),
  ),
  pending: payments,
  refundsDue: payments,
  channels: {
    ...listOf(channelTotals),
    description: 'The payment channels of all stores, by currency.',
  },
  parked: exactly({ total: field.count, rows: listOf(payment) }),
  jobs: { ...listOf(job), description: 'The background jobs of the process that responds to this request.' },
  checkedAt: field.time,
})

/** The operator's overview. It tells whether the gateway is healthy, and whether money is stuck. */
export function operatorStatusRoutes(app: FastifyInstance, api: Api): void {
  app.get(
    '/api/operator/status',
    {
      onRequest: operatorOnly(api),
      schema: {
        summary: 'Read health, jobs and open payments',
        security: [{ operator: [] }],
        response: respond({ 200: success(status) }, [401, 403, 404]),
      },
    },
    async () => {
      const { ledger, networks, problems: problemsNow } = api.operator!
      const list = async (...states: PaymentRecord['state'][]) => {
        const rows = await ledger.list({ states, limit: SHOWN + 1 })
        return { rows: rows.slice(0, SHOWN).map(view), hasMore: rows.length > SHOWN }
      }
      const [problems, found, pending, refundsDue, parked, channels] = await Promise.all([
        problemsNow(),
        networks(),
        list('settling', 'pending'),
        list('refund_due'),
        ledger.parked(PARKED_TRIES, SHOWN),
        channelTotalsOf(api),
      ])
      return ok({
        problems,
        networks: found,
        pending,
        refundsDue,
        channels,
        parked: { total: parked.total, rows: parked.rows.map(view) },
        jobs: [...runningJobs].map(jobView).sort((a, b) => a.name.localeCompare(b.name)),
        checkedAt: isoTime(api.clock.now()),
      })
    },
  )

  app.get(
    '/api/operator/config',
    {
      onRequest: operatorOnly(api),
      schema: {
        summary: 'Read the effective configuration',
        description: 'The configuration with all default values and without secrets.',
        security: [{ operator: [] }],
        response: respond({ 200: success({ type: 'object' }) }, [401, 403, 404]),
      },
    },
    async () => ok(api.operator!.config),
  )

  const view = (row: PaymentRecord) => {
    const asset = api.assets.find(
      ({ network, address }) => network === row.network && isSameAsset(address, row.asset),
    )
    const amount =
      asset === undefined ? `${row.amountAtomic}` : formatAmount(row.amountAtomic, asset.decimals, 2)
    return {
      purchaseId: row.purchaseId,
      storeId: row.storeId,
      state: row.state,
      network: row.network,
      amount: asset === undefined ? `${amount} of ${row.asset}` : `${amount} ${asset.symbol}`,
      payer: row.payer,
      txHash: row.transaction ?? row.attempt?.transaction ?? null,
      tries: row.tries,
      reason: row.dueReason ?? row.errorReason,
      since: isoTime(row.updatedAtMs),
    }
  }
}

/** Time after which a run counts as hanging, in ms. Every wait for nodes or the database is shorter. */
const HANGS_MS = 300_000

const jobView = ({ name, lastRunAtMs, lastDurationMs, lastError, runningMs = 0 }: Job) => ({
  name,
  lastRunAt: lastRunAtMs === undefined ? null : isoTime(lastRunAtMs),
  lastDurationMs: lastDurationMs ?? null,
  lastError:
    runningMs > HANGS_MS
      ? `The last run has not ended for ${Math.round(runningMs / 60_000)} minutes.`
      : (lastError ?? null),
})

const isSameAsset = (a: string, b: string): boolean =>
  a === b || (a.startsWith('0x') && a.toLowerCase() === b.toLowerCase())

const nonce = exactly({ mined: field.count, pending: field.count })

const row = exactly({
  network: field.text('CAIP-2.'),
  facilitator: field.textOrNull(
    'The URL of the remote facilitator. Null if this service settles payments itself.',
  ),
  address: field.textOrNull('The address of the account that pays the gas.'),
  balance: field.textOrNull('The balance in ETH or SOL. Null until a node has responded.'),
  paymentsLeft: field.textOrNull('The number of settlements that the balance covers.'),
  inFlight: field.countOrNull,
  nonce: { anyOf: [nonce, { type: 'null' }], description: 'The next nonce of the account (EVM only).' },
  asOf: field.timeOrNull,
  fault: field.textOrNull('Why the chain could not be queried.'),
  trouble: field.textOrNull('Why this process does not use the key, or prefers other keys.'),
  openAttempts: field.count,
  gasToday: field.text('The gas that all keys of this network have paid since midnight UTC.'),
  gasWeek: field.text('The gas that all keys of this network have paid in the last seven days.'),
  lease: exactly({
    state: {
      enum: ['any', 'free', 'held'],
      description:
        'Which process may sign with the key. `any` means every process, and `held` means the process that has the lease.',
    },
    processId: field.countOrNull,
    isThis: field.flag,
  }),
})

/** `GET /api/operator/settling` returns the settlement keys and their state. */
export function operatorSettlingRoute(app: FastifyInstance, api: Api): void {
  app.get(
    '/api/operator/settling',
    {
      onRequest: operatorOnly(api),
      schema: {
        summary: 'Read the state of the settlement keys',
        description:
          'Data from nodes is normally a few seconds old. If a node does not respond, older data has the time at which it was read, and a `fault`.',
        security: [{ operator: [] }],
        response: respond({ 200: success(exactly({ rows: listOf(row) })) }, [401, 403, 404]),
      },
    },
    async () => ok({ rows: (await api.operator!.settling()).map(view) }),
  )
}

function view({ network, settler, key, openAttempts, gas, lease }: SettlingReport) {
  const found = key?.value
  const held = typeof lease === 'object' ? lease : undefined
  return {
    network,
    facilitator: key === null ? settler : null,
    // The address is the last part of the settler's name, so it is known even before a node has responded.
    address: key === null ? null : (found?.address ?? settler.split(':').at(-1)!),
    balance: found === undefined ? null : coins(found.balance, network),
    paymentsLeft: found === undefined ? null : String(found.paymentsLeft),
    inFlight: found?.inFlight ?? null,
    nonce: found?.nonce ?? null,
    asOf: key?.atMs === undefined ? null : isoTime(key.atMs),
    fault: key?.fault ?? null,
    trouble: found?.trouble?.words ?? null,
    openAttempts,
    gasToday: coins(gas.today, network),
    gasWeek: coins(gas.week, network),
    lease: {
      state: held === undefined ? (lease as string) : 'held',
      processId: held?.process?.id ?? null,
      isThis: held?.process?.isThis ?? false,
    },
  }
}

const coins = (amount: bigint, network: NetworkId): string =>
  familyOf(network) === 'solana' ? `${formatAmount(amount, 9)} SOL` : `${formatAmount(amount, 18)} ETH`
