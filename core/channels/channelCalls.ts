import { afterCharge } from '../domain/channel.ts'
import type { ServedLink } from '../domain/link.ts'
import type { AtomicAmount } from '../domain/money.ts'
import type { NetworkId } from '../domain/network.ts'
import { isTollgateError } from '../errors/error.ts'
import { checksumAddress } from '../evm/hex.ts'
import type { Log } from '../ports/log.ts'
import type { ChannelResponse, Channels } from '../ports/store/channels.ts'
import type { Mailbox } from '../ports/store/mailbox.ts'
import { ChannelBook } from './channelBook.ts'
import {
  busy,
  type ChannelCall,
  type ChannelReceipt,
  channelStateOf,
  correct,
  unavailable,
} from './channelCall.ts'
import { assertCovered, deposit } from './deposit.ts'
import type { ChannelNetwork } from './offers.ts'
import { type OpenChannel, WAIT_MS } from './openChannel.ts'
import { channelReasons as reasons } from './reasons.ts'
import { refund } from './refund.ts'
import {
  assertFreshIdentifier,
  assertSigned,
  assertUnclaimed,
  isRepeat,
  termsFault,
  turnOf,
} from './voucherChecks.ts'

/**
 * A channel is not sold on if the chain was not read for this part of its withdrawal delay, because its payer could withdraw
 * unseen.
 */
const UNREAD_PARTS = 3

export interface ChannelCallsDeps {
  readonly channels: Channels
  /** The networks with payment channels, by id. */
  readonly networks: ReadonlyMap<NetworkId, ChannelNetwork>
  /** The lease that owns this process's rows, and whose mailbox no other part of the process reads. */
  readonly lease: { readonly current: { readonly id: number } }
  readonly mailbox: Mailbox
  readonly log: Log
}

/**
 * Sells calls by payment channels (x402 scheme `batch-settlement`): the payer deposits once, then signs a voucher over the growing
 * total with each call. A call is judged, sent to the seller, charged in the channel's row, and then answered. The voucher allows the
 * most that the call can cost, and the next voucher continues what was charged. If the seller fails, nothing is written, and the same
 * voucher stays good.
 */
export class ChannelCalls {
  readonly networks: ReadonlyMap<NetworkId, ChannelNetwork>
  readonly book: ChannelBook
  readonly #deps: ChannelCallsDeps

  constructor(deps: ChannelCallsDeps) {
    this.#deps = deps
    this.networks = deps.networks
    this.book = new ChannelBook(deps)
  }

  /**
   * Judges a call before the seller works, and holds its channel. A deposit is sent and mined first. The caller must call
   * {@link end} at the end of the call, also after an error.
   *
   * @returns the stored response if this call is a repeat of the last one; undefined if the call goes on. Synchronous for a voucher
   *   of a channel in memory on which no call is in progress
   * @throws the refusal
   */
  admit(
    call: ChannelCall,
    link: ServedLink,
  ): ChannelResponse | undefined | Promise<ChannelResponse | undefined> {
    const open = this.book.find(call.payment.channelId)
    const fault = termsFault(call, open)
    if (fault !== undefined) throw fault
    const isLate = open === undefined || call.payment.type !== 'voucher' || !open.isStored
    if (isLate || open.isBusyFor(turnOf(call))) return this.#admitLater(call, link)
    assertUnclaimed(call, open)
    open.hold()
    call.held = open
    return this.#judge(call, open)
  }

  /**
   * Refunds what is left of a channel to its payer, after a claim of what was charged.
   *
   * @returns the receipt
   * @throws the refusal
   */
  async refund(call: ChannelCall, link: ServedLink): Promise<ChannelReceipt> {
    const fault = termsFault(call, this.book.find(call.payment.channelId))
    if (fault !== undefined) throw fault
    const open = await this.#hold(call, link)
    return refund(call, open, this.book)
  }

  /**
   * The receipt of a call before it is charged.
   *
   * @param amountAtomic what the call costs
   */
  receiptOf(call: ChannelCall, amountAtomic: AtomicAmount): ChannelReceipt {
    const { held, base, depositTransaction, payment } = call
    const { channel } = held!
    const after = {
      ...channelStateOf(held!),
      chargedCumulativeAmount: String(base + amountAtomic),
    }
    return {
      success: true,
      transaction: depositTransaction,
      network: channel.network,
      payer: checksumAddress(channel.config.payer),
      amount: depositTransaction === '' ? '' : String(payment.deposit!.amount),
      extra: { channelState: after, chargedAmount: String(amountAtomic) },
    }
  }

  /**
   * Charges the call, after the seller has worked and before the response leaves. It is on disk when this resolves.
   *
   * @param amountAtomic what the call costs, at most the price of its offer
   * @throws if it is not charged, or the database does not say whether it is. It may be charged again as long as the call has not ended
   */
  async charge(
    call: ChannelCall,
    link: ServedLink,
    response: ChannelResponse | null,
    amountAtomic: AtomicAmount,
  ): Promise<void> {
    const { offer, payment, requestHash, identifier, held } = call
    const open = held!
    const { channel } = open
    const charged = call.base + amountAtomic
    const { signed, signature } = afterCharge(channel, charged, payment)
    let isCharged = false
    try {
      isCharged = await this.#deps.channels.charge({
        id: channel.id,
        owner: this.#deps.lease.current.id,
        network: channel.network,
        asset: offer.terms.asset,
        storeId: link.storeId,
        linkId: link.id,
        amountAtomic: charged - call.before,
        before: call.before,
        signed,
        signature,
        voucherTotal: payment.maxClaimable,
        requestHash: requestHash ?? '',
        identifier,
        response: requestHash === null ? null : response,
      })
    } catch (error) {
      call.isUnsure = true
      throw error
    }
    if (!isCharged) {
      this.book.drop(open)
      throw unavailable(reasons.busy, 'Another process has taken over this payment channel.')
    }
    // The contract's state may have been read meanwhile.
    open.channel = { ...open.channel, charged, signed, signature }
    open.last = {
      requestHash: requestHash ?? '',
      identifier,
      voucherTotal: payment.maxClaimable,
      isStored: response !== null && requestHash !== null,
    }
    open.lastAtMs = performance.now()
    open.mayBeBehind = false
    call.isUnsure = false
    this.#release(call)
  }

  /** Ends a call. If it was not charged, the channel is free for the next call. */
  end(call: ChannelCall): void {
    this.#release(call)
  }

  async close(): Promise<void> {
    await this.book.close()
  }

  #release(call: ChannelCall): void {
    const open = call.held
    if (open === null) return
    call.held = null
    // The commit may have happened, so the row is read again before the channel's next call.
    if (call.isUnsure) this.book.drop(open)
    open.release(call.correction === null ? undefined : call)
    // A channel without a deposit is kept nowhere.
    if (!open.isStored && open.isIdle) this.book.drop(open)
  }

  async #admitLater(call: ChannelCall, link: ServedLink): Promise<ChannelResponse | undefined> {
    const untilMs = performance.now() + WAIT_MS
    for (;;) {
      const open = await this.#hold(call, link, untilMs)
      const known = this.#judge(call, open)
      if (known !== undefined) return known
      if (call.payment.type === 'deposit') await deposit(call, open, this.book, link.storeId)
      if (await this.book.store(open)) {
        // The contract may have been read again while the row was written.
        assertCovered(call, open)
        return undefined
      }
      // Another process has stored the new channel meanwhile.
      this.#release(call)
    }
  }

  /** Takes the channel if it is not in memory, and waits for the calls before this one. */
  async #hold(
    call: ChannelCall,
    { storeId }: ServedLink,
    untilMs = performance.now() + WAIT_MS,
  ): Promise<OpenChannel> {
    const { offer, payment } = call
    const { chain } = offer.channels
    const { channelId: id, config } = payment
    const turn = turnOf(call)
    for (;;) {
      let open = this.book.find(id)
      if (open === undefined) {
        // Only the payer's authorizer can make the gateway read database and chain.
        assertSigned(call)
        const fresh = { id, network: chain.network, storeId, config }
        const taken = await this.book.take(fresh, chain, turn, untilMs).catch((error: unknown) => {
          if (isTollgateError(error)) throw error
          this.#deps.log.warn({ network: chain.network, err: error }, 'a payment channel could not be read')
          throw unavailable(reasons.rpc, 'The gateway cannot query the chain now.')
        })
        if (taken === 'busy') throw busy()
        open = taken
      }
      assertUnclaimed(call, open)
      if (open.isDropped) continue
      if (open.isBusyFor(turn)) {
        assertSigned(call)
        const granted = await open.wait(turn, untilMs)
        if (granted === 'late') throw busy()
        if (granted === 'dropped') continue
      } else open.hold()
      call.held = open
      return open
    }
  }

  /**
   * Judges a voucher against the channel's total.
   *
   * @returns the stored response of the same call
   */
  #judge(call: ChannelCall, open: OpenChannel): undefined | Promise<ChannelResponse | undefined> {
    const { payment, offer } = call
    const { channel } = open
    const { charged } = channel
    const { maxClaimable } = payment
    if (isRepeat(call, open)) {
      assertSigned(call)
      return this.#lastResponse(call, open)
    }
    assertFreshIdentifier(call, open)
    const next = charged + offer.priceAtomic
    if (maxClaimable !== next && !(open.mayBeBehind && maxClaimable > next)) {
      assertSigned(call)
      throw correct(call, open)
    }
    if (performance.now() - open.readAtMs > (1_000 * channel.config.withdrawDelay) / UNREAD_PARTS)
      throw unavailable(reasons.rpc, 'The chain was not read for too long to sell on payment channels.')
    if (payment.type === 'voucher') assertCovered(call, open)
    assertSigned(call)
    call.before = charged
    return undefined
  }

  async #lastResponse(call: ChannelCall, open: OpenChannel): Promise<ChannelResponse | undefined> {
    const response = await this.#deps.channels.lastResponse(open.channel.id, open.last!)
    this.#release(call)
    if (response !== undefined) return response
    // The call was claimed in the meantime, or another process has taken the channel and charged a later one.
    this.book.drop(open)
    throw busy()
  }
}
