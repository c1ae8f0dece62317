import type { FastifyInstance } from 'fastify'
import { formatAmount } from '../../core/domain/money.ts'
import { familyOf, type NetworkId } from '../../core/domain/network.ts'
import type { Api, SettlingReport } from '../deps.ts'
import { isoTime, ok } from '../http/envelope.ts'
import {
  answers,
  count,
  countOrNull,
  exactly,
  flag,
  listOf,
  success,
  text,
  textOrNull,
  timeOrNull,
} from '../schema/answers.ts'
import { operatorOnly } from './operatorSession.ts'

const nonce = exactly({ mined: count, pending: count })

const row = exactly({
  network: text('CAIP-2.'),
  facilitator: textOrNull('Where somebody else settles: at which address.'),
  address: textOrNull('The account that pays for gas.'),
  balance: textOrNull('In ETH or SOL; null where no node has said yet.'),
  paymentsLeft: textOrNull('How many more settlements it pays for.'),
  inFlight: countOrNull,
  nonce: { anyOf: [nonce, { type: 'null' }], description: 'The next account number; EVM only.' },
  asOf: timeOrNull,
  fault: textOrNull('Why the chain could not be asked.'),
  trouble: textOrNull('Why this process passes the key over, or takes others first.'),
  openAttempts: count,
  gasToday: text('What settlements have cost on this network since midnight UTC, by all keys.'),
  gasWeek: text('And in seven days.'),
  lease: exactly({
    state: { enum: ['any', 'nobody', 'held'], description: '`any`: every process may sign.' },
    processId: countOrNull,
    isThis: flag,
  }),
})

/** `GET /api/operator/settling`: the keys that settle, and what they have and do. */
export function operatorSettlingRoute(app: FastifyInstance, api: Api): void {
  app.get(
    '/api/operator/settling',
    {
      onRequest: operatorOnly(api),
      schema: {
        summary: 'Who settles, with what key, and how it stands',
        description:
          'What nodes say is some seconds old at most, or has the time as of which it is and a `fault`.',
        security: [{ operator: [] }],
        response: answers({ 200: success(exactly({ rows: listOf(row) })) }, 401, 403, 404),
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
    // The last part of its name: also where no node has said anything yet.
    address: key === null ? null : (found?.address ?? settler.split(':').at(-1)!),
    balance: found === undefined ? null : coins(found.balance, network),
    paymentsLeft: found === undefined ? null : String(found.paymentsLeft),
    inFlight: found?.inFlight ?? null,
    nonce: found?.nonce ?? null,
    asOf: key?.atMs === undefined ? null : isoTime(key.atMs),
    fault: key?.fault ?? null,
    trouble: found?.trouble?.words ?? null,
    ...{ openAttempts, gasToday: coins(gas.today, network), gasWeek: coins(gas.week, network) },
    lease: {
      state: held === undefined ? (lease as string) : 'held',
      ...{ processId: held?.process?.id ?? null, isThis: held?.process?.isThis ?? false },
    },
  }
}

const coins = (amount: bigint, network: NetworkId): string =>
  familyOf(network) === 'solana' ? `${formatAmount(amount, 9)} SOL` : `${formatAmount(amount, 18)} ETH`
