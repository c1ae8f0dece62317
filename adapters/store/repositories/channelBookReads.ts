import { unclaimed, writtenOff } from '../../../core/domain/channel.ts'
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
import { type CallsOf, nothing, part, type Reads } from './transaction.ts'

interface AccountRow extends ChannelRow {
  readonly opened_at_ms: number
  readonly base: string
  readonly booked: number | null
  readonly due: number | null
}

interface AuditRow extends ChannelRow {
  readonly base: string
  readonly amount: string | null
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
  reads: Reads,
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
        ORDER BY k.opened_at_ms DESC, k.id DESC LIMIT ${limit} + 1`
      const accounts = rows.map(toAccount)
      const { shown, nextCursor } = cutPage(accounts, limit, ({ openedAtMs, channel }) => [
        openedAtMs,
        channel.id,
      ])
      return { accounts: shown, nextCursor }
    },

    async debts(storeId) {
      const ofStore = storeId === undefined ? nothing : part`AND k.store_id = ${storeId}`
      const rows = await readsFor(storeId ?? 'operator').all<ChannelRow>`SELECT c.*, ${configColumns}
        FROM channels c JOIN channel_configs k ON k.id = c.id WHERE c.unclaimed_since_ms IS NOT NULL
          AND c.claimed <> c.charged ${ofStore}`
      const byToken = Map.groupBy(rows.map(channelOf), ({ network, config }) => `${network} ${config.token}`)
      return [...byToken.values()].map((of): ChannelDebt => {
        const { network, config } = of[0]!
        return {
          network,
          token: config.token,
          channels: of.length,
          unclaimedAtomic: of.reduce((sum, channel) => sum + unclaimed(channel), 0n),
          writtenOffAtomic: of.reduce((sum, channel) => sum + writtenOff(channel), 0n),
        }
      })
    },

    async audit(after, limit) {
      // One statement, so that a call that is booked meanwhile is in one of the two tables.
      const rows = await reads.all<AuditRow>`
        SELECT c.*, ${configColumns}, k.base, s.amount
        FROM (SELECT * FROM channels WHERE id > ${after === null ? new Uint8Array() : bytesOf(after)} ORDER BY id LIMIT ${limit} + 0) c
        JOIN channel_configs k ON k.id = c.id
        LEFT JOIN (SELECT id, amount FROM channel_sales UNION ALL SELECT id, amount FROM channel_sums) s ON s.id = c.id
        ORDER BY c.id`
      const audited: AuditedChannel[] = []
      for (const row of rows) {
        const channel = channelOf(row)
        const last = audited.at(-1)
        const isSame = last?.channel.id === channel.id
        const summedAtomic = (isSame ? last.summedAtomic : 0n) + BigInt(row.amount ?? 0)
        if (isSame) audited.pop()
        audited.push({ channel, baseAtomic: BigInt(row.base), summedAtomic })
      }
      return audited
    },

    async wrongTotals() {
      const sums = await reads.all<{
        store_id: string
        network: string
        token: string
        kind: string
        amount: string
      }>`
        SELECT store_id, network, token, 'charged' AS kind, charged AS amount FROM channel_totals
        UNION ALL SELECT store_id, network, token, 'claimed', claimed FROM channel_totals
        UNION ALL SELECT k.store_id, k.network, k.token, 'sold', s.amount
          FROM channel_sales s JOIN channel_configs k ON k.id = s.id
        UNION ALL SELECT k.store_id, k.network, k.token, 'unbooked', s.amount
          FROM channel_claims s JOIN channel_configs k ON k.id = s.id
        UNION ALL SELECT k.store_id, k.network, k.token, 'on_chain', c.claimed
          FROM channels c JOIN channel_configs k ON k.id = c.id
        UNION ALL SELECT store_id, network, token, 'base', base FROM channel_configs`
      const byToken = Map.groupBy(
        sums,
        ({ store_id, network, token }) => `store ${store_id} in ${token} on ${network}`,
      )
      return [...byToken].flatMap(([name, of]) => {
        const sumOf = (wanted: string) =>
          of.reduce((sum, { kind, amount }) => (kind === wanted ? sum + BigInt(amount) : sum), 0n)
        const found: string[] = []
        if (sumOf('charged') !== sumOf('sold'))
          found.push(
            `the total of the channels of ${name} is ${sumOf('charged')}, and its sales add up to ${sumOf('sold')}`,
          )
        const claimed = sumOf('on_chain') - sumOf('base')
        const booked = sumOf('claimed') + sumOf('unbooked')
        if (claimed !== booked)
          found.push(`the channels of ${name} have claimed ${claimed}, and the ledger has ${booked}`)
        return found
      })
    },
  }
}
