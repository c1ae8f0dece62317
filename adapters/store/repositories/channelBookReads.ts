import type { NetworkId } from '../../../core/domain/network.ts'
import type {
  AuditedChannel,
  ChannelAccount,
  ChannelBooks,
  ChannelDebt,
} from '../../../core/ports/store/channelBooks.ts'
import { readCursor } from '../../../core/ports/store/purchases.ts'
import { cutPage } from '../sql/rows.ts'
import type { channelBookWrites } from './channelBooks.ts'
import { bytesOf, type ChannelRow, channelOf, configColumns } from './channels.ts'
import { type CallsOf, nothing, part, type Reads, words } from './transaction.ts'

/** The sum of a column of amounts, which can exceed 64 bits, as text. */
const sumOf = (column: string) =>
  words(`sum_atomic(${column})`, `coalesce(sum((${column})::numeric), 0)::text`)
/** Amounts are digits without leading zeros, so the longer one is greater. */
const exceedsBalance = '(length(c.charged), c.charged) > (length(c.balance), c.balance)'

interface AccountRow extends ChannelRow {
  readonly opened_at_ms: number
  readonly base: string
  readonly booked: number | null
  readonly due: number | null
}

interface AuditRow extends ChannelRow {
  readonly base: string
  readonly booked: string
  readonly due: string
}

interface DebtRow {
  readonly network: NetworkId
  readonly token: string
  readonly channels: number
  readonly charged: string
  readonly claimed: string
  readonly beyond: string
  readonly covered: string
}

interface PayoutsRow {
  readonly network: NetworkId
  readonly token: string
  readonly due: string
}

const toAccount = (row: AccountRow): ChannelAccount => {
  const channel = channelOf(row)
  const base = BigInt(row.base)
  return {
    channel,
    openedAtMs: row.opened_at_ms,
    calls: Number(row.booked ?? 0) + Number(row.due ?? 0),
    earnedAtomic: channel.charged - base,
    claimedAtomic: channel.totalClaimed - base,
    parkedReason: row.parked_reason,
  }
}

export function createChannelBooks(
  { channelBooks }: { readonly channelBooks: CallsOf<typeof channelBookWrites> },
  readsFor: (requester: string) => Reads,
): ChannelBooks {
  return {
    ...channelBooks,

    async page(storeId, { limit, cursor }) {
      const { atMs, id } = cursor === undefined ? { atMs: 0, id: '' } : readCursor(cursor)
      const older =
        cursor === undefined ? nothing : part`AND (k.opened_at_ms, k.id) < (${atMs}, ${bytesOf(id)})`
      const rows = await readsFor(storeId).all<AccountRow>`
        SELECT c.*, ${configColumns}, k.opened_at_ms, k.base,
          (SELECT sum(s.calls) FROM channel_sales s WHERE s.id = k.id) AS booked,
          (SELECT sum(s.calls) FROM channel_sums s WHERE s.id = k.id) AS due
        FROM channel_configs k JOIN channels c ON c.id = k.id WHERE k.store_id = ${storeId} ${older}
        ORDER BY k.opened_at_ms DESC, k.id DESC LIMIT ${limit + 1} + 0`
      const accounts = rows.map(toAccount)
      const { shown, nextCursor } = cutPage(accounts, limit, ({ openedAtMs, channel }) => [
        openedAtMs,
        channel.id,
      ])
      return { accounts: shown, nextCursor }
    },

    async debts(storeId) {
      const ofStore = storeId === undefined ? nothing : part`AND k.store_id = ${storeId}`
      const rows = await readsFor(storeId ?? 'operator').all<DebtRow>`
        SELECT k.network, k.token, count(*) AS channels, ${sumOf('c.charged')} AS charged, ${sumOf('c.claimed')} AS claimed,
          ${sumOf(`CASE WHEN ${exceedsBalance} THEN c.charged ELSE '0' END`)} AS beyond,
          ${sumOf(`CASE WHEN ${exceedsBalance} THEN c.balance ELSE '0' END`)} AS covered
        FROM channels c JOIN channel_configs k ON k.id = c.id
        WHERE c.unclaimed_since_ms IS NOT NULL AND c.claimed <> c.charged ${ofStore} GROUP BY k.network, k.token`
      return rows.map(({ network, token, channels, charged, claimed, beyond, covered }): ChannelDebt => {
        const writtenOffAtomic = BigInt(beyond) - BigInt(covered)
        return {
          network,
          token,
          channels: Number(channels),
          unclaimedAtomic: BigInt(charged) - BigInt(claimed) - writtenOffAtomic,
          writtenOffAtomic,
        }
      })
    },

    async payoutsDue(storeId) {
      const ofStore = storeId === undefined ? nothing : part`WHERE store_id = ${storeId}`
      // Stores can share a wallet, which the contract owes once.
      const rows = await readsFor(storeId ?? 'operator').all<PayoutsRow>`
        SELECT network, token, ${sumOf('due')} AS due
        FROM (SELECT DISTINCT network, receiver, token, due FROM channel_payouts ${ofStore}) n GROUP BY network, token`
      return rows.map(({ network, token, due }) => ({ network, token, dueAtomic: BigInt(due) }))
    },

    async audit(after, limit) {
      // One statement, so that a call that is booked meanwhile is in one of the two tables.
      const rows = await readsFor('ledger check').all<AuditRow>`
        SELECT c.*, ${configColumns}, k.base,
          (SELECT ${sumOf('s.amount')} FROM channel_sales s WHERE s.id = c.id) AS booked,
          (SELECT ${sumOf('s.amount')} FROM channel_sums s WHERE s.id = c.id) AS due
        FROM channels c JOIN channel_configs k ON k.id = c.id
        WHERE c.id > ${after === null ? new Uint8Array() : bytesOf(after)} ORDER BY c.id LIMIT ${limit} + 0`
      return rows.map(
        (row): AuditedChannel => ({
          channel: channelOf(row),
          baseAtomic: BigInt(row.base),
          summedAtomic: BigInt(row.booked) + BigInt(row.due),
        }),
      )
    },

    async wrongTotals() {
      const rows = await readsFor('ledger check').all<{
        store_id: string
        network: string
        token: string
        kind: string
        amount: string
      }>`
        SELECT store_id, network, token, kind, ${sumOf('amount')} AS amount FROM (
        SELECT store_id, network, token, 'charged' AS kind, charged AS amount FROM channel_totals
        UNION ALL SELECT store_id, network, token, 'claimed', claimed FROM channel_totals
        UNION ALL SELECT k.store_id, k.network, k.token, 'sold', s.amount
          FROM channel_sales s JOIN channel_configs k ON k.id = s.id
        UNION ALL SELECT k.store_id, k.network, k.token, 'unbooked', s.amount
          FROM channel_claims s JOIN channel_configs k ON k.id = s.id
        UNION ALL SELECT k.store_id, k.network, k.token, 'on_chain', c.claimed
          FROM channels c JOIN channel_configs k ON k.id = c.id
        UNION ALL SELECT store_id, network, token, 'base', base FROM channel_configs
        ) n GROUP BY store_id, network, token, kind`
      const byToken = Map.groupBy(
        rows,
        ({ store_id, network, token }) => `store ${store_id} in ${token} on ${network}`,
      )
      return [...byToken].flatMap(([name, of]) => {
        const sums = new Map(of.map(({ kind, amount }) => [kind, BigInt(amount)]))
        const total = (kind: string) => sums.get(kind) ?? 0n
        const found: string[] = []
        if (total('charged') !== total('sold'))
          found.push(
            `the total of the channels of ${name} is ${total('charged')}, and its sales add up to ${total('sold')}`,
          )
        const claimed = total('on_chain') - total('base')
        const booked = total('claimed') + total('unbooked')
        if (claimed !== booked)
          found.push(`the channels of ${name} have claimed ${claimed}, and the ledger has ${booked}`)
        return found
      })
    },
  }
}
