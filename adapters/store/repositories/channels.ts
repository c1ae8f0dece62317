import {
  type Channel,
  type ChannelId,
  type ChannelOnChain,
  CLAIM_RECHECK_MS,
  type SentRefund,
} from '../../../core/domain/channel.ts'
import type { NetworkId } from '../../../core/domain/network.ts'
import type {
  ChannelCharge,
  ChannelEarnings,
  ChannelPayout,
  ChannelResponse,
  Channels,
  ChargedCall,
  OwnedChannel,
  OwnedElsewhere,
  UnclaimedChannel,
} from '../../../core/ports/store/channels.ts'
import {
  type CallsOf,
  locked,
  nothing,
  part,
  type Reads,
  row,
  type Steps,
  type Tx,
  table,
  words,
} from './transaction.ts'

export const HOUR_MS = 3_600_000

/** The id of a row of {@link table}, which is hex. */
export const idOf = (alias: string) => words(`unhex(${alias}.id)`, `decode(${alias}.id, 'hex')`)

export const bytesOf = (hex: string): Uint8Array => new Uint8Array(Buffer.from(hex.slice(2), 'hex'))
const hexOf = (bytes: Uint8Array): string =>
  `0x${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('hex')}`

export interface ChannelRow {
  readonly id: Uint8Array
  readonly charged: string
  readonly signed: string
  readonly signature: Uint8Array | null
  readonly published: string | null
  readonly balance: string
  readonly claimed: string
  readonly pending: string
  readonly withdraw_requested_at: number
  readonly refund_nonce: string
  readonly owner: number | null
  readonly unclaimed_since_ms: number | null
  readonly parked_until_ms: number | null
  readonly parked_reason: string | null
  readonly sent_refund_nonce: string | null
  readonly sent_refund_amount: string | null
  readonly network: NetworkId
  readonly store_id: string
  readonly payer: string
  readonly payer_authorizer: string
  readonly receiver: string
  readonly receiver_authorizer: string
  readonly token: string
  readonly withdraw_delay: number
  readonly salt: string
}

/** The columns of a channel's config, of the alias `k`, for {@link channelOf}. */
export const configColumns = (() => {
  const columns = `k.network, k.store_id, k.payer, k.payer_authorizer, k.receiver, k.receiver_authorizer, k.token,
    k.withdraw_delay, k.salt`
  return words(columns, columns)
})()

export const channelOf = (given: ChannelRow): Channel => ({
  id: hexOf(given.id),
  network: given.network,
  storeId: given.store_id,
  config: {
    payer: given.payer,
    payerAuthorizer: given.payer_authorizer,
    receiver: given.receiver,
    receiverAuthorizer: given.receiver_authorizer,
    token: given.token,
    withdrawDelay: given.withdraw_delay,
    salt: given.salt,
  },
  charged: BigInt(given.charged),
  signed: BigInt(given.signed),
  signature: given.signature === null ? null : hexOf(given.signature),
  published: given.published === null ? null : BigInt(given.published),
  balance: BigInt(given.balance),
  totalClaimed: BigInt(given.claimed),
  pendingWithdrawal: BigInt(given.pending),
  withdrawRequestedAtSeconds: given.withdraw_requested_at,
  refundNonce: BigInt(given.refund_nonce),
})

/** The stored form of the call that was charged last: the hash of its request, and its payment's identifier if it has one. */
export const callOf = ({
  requestHash,
  identifier,
}: Pick<ChannelCharge, 'requestHash' | 'identifier'>): string =>
  identifier === null ? requestHash : `${requestHash}:${identifier}`

interface LastRow {
  readonly request_hash: string
  readonly voucher_total: string
  readonly charged_at_ms: number
  readonly status: number
}

const chargedCallOf = (stored: LastRow): ChargedCall => {
  const [requestHash = '', identifier = null] = stored.request_hash.split(':')
  return {
    requestHash,
    identifier,
    voucherTotal: BigInt(stored.voucher_total),
    isStored: stored.status > 0,
  }
}

/** Takes the row for a process, unless a process with a valid lease has it. */
function* take(tx: Tx, id: Uint8Array, owner: number): Steps<OwnedChannel | OwnedElsewhere | undefined> {
  const found = yield* tx.one<ChannelRow>`SELECT c.*, ${configColumns}
    FROM channels c JOIN channel_configs k ON k.id = c.id WHERE c.id = ${id} ${locked}`
  if (found === undefined) return undefined
  if (found.owner !== null && found.owner !== owner) {
    const nowMs = yield* tx.storeNowMs()
    const held = yield* tx.one`SELECT id FROM leases WHERE id = ${found.owner} AND expires_at_ms > ${nowMs}`
    if (held !== undefined) return { ownedBy: found.owner }
  }
  const isAbandoned = found.owner !== null && found.owner !== owner
  if (found.owner !== owner) yield* tx.run`UPDATE channels SET owner = ${owner} WHERE id = ${id}`
  const stored =
    yield* tx.one<LastRow>`SELECT request_hash, voucher_total, charged_at_ms, status FROM channel_responses WHERE id = ${id}`
  const last = stored === undefined ? null : chargedCallOf(stored)
  const { sent_refund_nonce: nonce, sent_refund_amount: amount } = found
  const refund = nonce === null ? null : { nonce: BigInt(nonce), amount: BigInt(amount!) }
  const lastAgeMs = stored === undefined ? 0 : tx.nowMs - stored.charged_at_ms
  return { channel: channelOf(found), last, lastAgeMs, refund, isAbandoned }
}

export const channelWrites = {
  take,

  *open(tx: Tx, channel: Channel, owner: number): Steps<OwnedChannel | OwnedElsewhere> {
    const id = bytesOf(channel.id)
    const { config } = channel
    yield* tx.run`INSERT INTO channel_configs ${row({
      id,
      network: channel.network,
      store_id: channel.storeId,
      payer: config.payer,
      payer_authorizer: config.payerAuthorizer,
      receiver: config.receiver,
      receiver_authorizer: config.receiverAuthorizer,
      token: config.token,
      withdraw_delay: config.withdrawDelay,
      salt: config.salt,
      opened_at_ms: tx.nowMs,
      base: String(channel.charged),
    })} ON CONFLICT (id) DO NOTHING`
    yield* tx.run`INSERT INTO channels ${row({
      id,
      charged: String(channel.charged),
      signed: String(channel.signed),
      signature: null,
      balance: String(channel.balance),
      claimed: String(channel.totalClaimed),
      pending: String(channel.pendingWithdrawal),
      withdraw_requested_at: channel.withdrawRequestedAtSeconds,
      refund_nonce: String(channel.refundNonce),
      owner,
    })} ON CONFLICT (id) DO NOTHING`
    return (yield* take(tx, id, owner))!
  },

  *update(tx: Tx, channelId: ChannelId, state: ChannelOnChain): Steps<bigint> {
    const id = bytesOf(channelId)
    const found = yield* tx.one<ChannelRow>`SELECT * FROM channels WHERE id = ${id} ${locked}`
    if (found === undefined) return 0n
    const { balance, totalClaimed, pendingWithdrawal, refundNonce } = state
    const risen = totalClaimed - BigInt(found.claimed)
    // A channel is parked because of its balance, or because its claim reverts with it.
    if (String(balance) !== found.balance && found.parked_until_ms !== null)
      yield* tx.run`UPDATE channels SET parked_until_ms = NULL, parked_reason = NULL WHERE id = ${id}`
    yield* tx.run`UPDATE channels SET balance = ${String(balance)}, claimed = ${String(totalClaimed)},
      pending = ${String(pendingWithdrawal)}, withdraw_requested_at = ${state.withdrawRequestedAtSeconds},
      refund_nonce = ${String(refundNonce)}, published = ${risen > 0n ? found.signed : found.published}
      WHERE id = ${id}`
    const charged = BigInt(found.charged)
    // Only a database that was restored from a copy is behind the contract. What is claimed was charged, and is not sold again.
    if (totalClaimed > charged) {
      const total = String(totalClaimed)
      yield* tx.run`UPDATE channels SET charged = ${total}, signed = ${total}, signature = NULL WHERE id = ${id}`
      yield* addLostCalls(tx, id, totalClaimed - charged)
    }
    // The block of a claim can leave the chain, and the channel has to be claimed again then.
    if (totalClaimed < charged)
      yield* tx.run`UPDATE channels SET unclaimed_since_ms =
        CASE WHEN signature IS NOT NULL THEN coalesce(unclaimed_since_ms, ${tx.nowMs}) END WHERE id = ${id}`
    if (risen === 0n) {
      if (totalClaimed >= charged)
        yield* tx.run`UPDATE channels SET unclaimed_since_ms = NULL
          WHERE id = ${id} AND unclaimed_since_ms <= ${tx.nowMs - CLAIM_RECHECK_MS}`
      return 0n
    }
    const sum = yield* tx.one<{ amount: string }>`INSERT INTO channel_claims ${row({ id, amount: '0' })}
      ON CONFLICT (id) DO UPDATE SET amount = channel_claims.amount RETURNING amount`
    yield* tx.run`UPDATE channel_claims SET amount = ${String(BigInt(sum!.amount) + risen)} WHERE id = ${id}`
    if (totalClaimed < charged) return risen
    yield* tx.run`UPDATE channels SET unclaimed_since_ms = ${tx.nowMs}, parked_until_ms = NULL, parked_reason = NULL
      WHERE id = ${id}`
    yield* tx.run`DELETE FROM channel_responses WHERE id = ${id}`
    return risen
  },

  *noteRefund(tx: Tx, id: ChannelId, owner: number, refund: SentRefund | null): Steps<boolean> {
    const noted = yield* tx.run`UPDATE channels SET sent_refund_nonce = ${refund && String(refund.nonce)},
      sent_refund_amount = ${refund && String(refund.amount)} WHERE id = ${bytesOf(id)} AND owner = ${owner}`
    return noted > 0
  },

  *release(tx: Tx, ids: readonly ChannelId[], owner: number, next: number | null): Steps<void> {
    const given = ids.map((id) => ({ id: id.slice(2) }))
    yield* tx.run`UPDATE channels SET owner = ${next} WHERE owner = ${owner} AND id IN (
      SELECT ${idOf('n')} FROM ${table('n', { id: 'text' }, given)})`
  },

  *notePayouts(tx: Tx, network: NetworkId, payouts: readonly ChannelPayout[]): Steps<void> {
    const rows = payouts.map(({ storeId, receiver, token, dueAtomic }) => ({
      store_id: storeId,
      receiver,
      token,
      due: String(dueAtomic),
    }))
    const columns = { store_id: 'text', receiver: 'text', token: 'text', due: 'text' } as const
    yield* tx.run`DELETE FROM channel_payouts WHERE network = ${network} AND (store_id, receiver, token) IN
      (SELECT n.store_id, n.receiver, n.token FROM ${table('n', columns, rows)})`
    yield* tx.run`INSERT INTO channel_payouts (store_id, network, receiver, token, due)
      SELECT n.store_id, ${network}, n.receiver, n.token, n.due FROM ${table('n', columns, rows)} WHERE n.due <> '0'`
  },

  *park(tx: Tx, id: ChannelId, untilMs: number, reason: string): Steps<void> {
    yield* tx.run`UPDATE channels SET parked_until_ms = ${untilMs}, parked_reason = ${reason}
      WHERE id = ${bytesOf(id)}`
  },
}

/**
 * Adds calls that a restored database lacks to what is charged and not booked. The amount is added here, because it can exceed the 64
 * bits of SQLite's integers. The first statement locks the row, which the job that books it may delete.
 */
function* addLostCalls(tx: Tx, id: Uint8Array, amountAtomic: bigint): Steps<void> {
  const at = Math.floor(tx.nowMs / HOUR_MS)
  const sum = yield* tx.one<{ amount: string }>`INSERT INTO channel_sums ${row({
    id,
    link_id: '',
    at,
    calls: 0,
    amount: '0',
  })} ON CONFLICT (id, link_id, at) DO UPDATE SET calls = channel_sums.calls RETURNING amount`
  yield* tx.run`UPDATE channel_sums SET amount = ${String(BigInt(sum!.amount) + amountAtomic)}
    WHERE id = ${id} AND link_id = '' AND at = ${at}`
}

interface ResponseRow {
  readonly status: number
  readonly headers: string
  readonly media_type: string
  readonly body: Uint8Array
  readonly receipt: string
}

const firstId = new Uint8Array()

/** What both databases share. Each charges calls by a statement of its own, because that is the write of every paid call. */
export function createChannels(
  { channels }: { readonly channels: CallsOf<typeof channelWrites> },
  reads: Reads,
): Omit<Channels, 'charge'> {
  return {
    ...channels,

    take: (id, owner) => channels.take(bytesOf(id), owner),

    async lastResponse(id, call): Promise<ChannelResponse | undefined> {
      const found = await reads.one<ResponseRow>`
        SELECT * FROM channel_responses WHERE id = ${bytesOf(id)} AND status > 0
          AND request_hash = ${callOf(call)} AND voucher_total = ${String(call.voucherTotal)}`
      if (found === undefined) return undefined
      const { status, headers, media_type: mediaType, body, receipt } = found
      return { status, headers: JSON.parse(headers), mediaType, body, receipt }
    },

    async unclaimed(network, after, limit): Promise<UnclaimedChannel[]> {
      const from = after === null ? firstId : bytesOf(after)
      const rows = await reads.all<ChannelRow>`SELECT c.*, ${configColumns}
        FROM channels c JOIN channel_configs k ON k.id = c.id
        WHERE c.unclaimed_since_ms IS NOT NULL AND c.id > ${from} AND k.network = ${network}
        ORDER BY c.id LIMIT ${limit} + 0`
      return rows.map((one) => ({
        channel: channelOf(one),
        sinceMs: one.unclaimed_since_ms!,
        parked:
          one.parked_until_ms === null
            ? null
            : { untilMs: one.parked_until_ms, reason: one.parked_reason ?? '' },
      }))
    },

    async payouts(network): Promise<ChannelPayout[]> {
      const rows = await reads.all<PayoutRow>`
        SELECT store_id, receiver, token, due FROM channel_payouts WHERE network = ${network}`
      return rows.map(({ store_id, receiver, token, due }) => ({
        storeId: store_id,
        receiver,
        token,
        dueAtomic: BigInt(due),
      }))
    },

    async earnings(storeId): Promise<ChannelEarnings[]> {
      // CROSS JOIN makes SQLite start from what is not booked yet, which is less than the channels of a large store.
      const config = part`CROSS JOIN channel_configs k WHERE k.id = s.id
        ${storeId === undefined ? nothing : part`AND k.store_id = ${storeId}`}`
      const rows = await reads.all<EarningsRow>`
        SELECT network, token, calls, charged, claimed FROM channel_totals ${storeId === undefined ? nothing : part`WHERE store_id = ${storeId}`}
        UNION ALL SELECT k.network, k.token, s.calls, s.amount, '0' FROM channel_sums s ${config}
        UNION ALL SELECT k.network, k.token, 0, '0', s.amount FROM channel_claims s ${config}`
      const byToken = Map.groupBy(rows, ({ network, token }) => `${network} ${token}`)
      return [...byToken.values()].map((of) => ({
        network: of[0]!.network,
        asset: of[0]!.token,
        calls: of.reduce((sum, { calls }) => sum + calls, 0),
        chargedAtomic: of.reduce((sum, { charged }) => sum + BigInt(charged), 0n),
        claimedAtomic: of.reduce((sum, { claimed }) => sum + BigInt(claimed), 0n),
      }))
    },
  }
}

interface PayoutRow {
  readonly store_id: string
  readonly receiver: string
  readonly token: string
  readonly due: string
}

interface EarningsRow {
  readonly network: NetworkId
  readonly token: string
  readonly calls: number
  readonly charged: string
  readonly claimed: string
}
