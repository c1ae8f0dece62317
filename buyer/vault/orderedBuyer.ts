import { familyOf, type NetworkId } from '../../core/domain/network.ts'
import { checksumAddress } from '../../core/evm/address.ts'
import type { Checked, Settler } from '../../core/ports/chains/settler.ts'
import { evmTermsFault } from '../../core/x402/evmTermsFault.ts'
import type { OfferTerms } from '../../core/x402/offerTerms.ts'
import { solanaTermsFault } from '../../core/x402/solanaTermsFault.ts'
import { type Buyer, BuyerRefusal, type Order, type SignedPayment } from '../buyer.ts'
import { askEvmChain } from '../chains/askEvmChain.ts'
import { askLatestBlock, askSolanaChain } from '../chains/askSolanaChain.ts'

/** Longest time the chain is asked on each side of the order, in ms. */
const CHAIN_TIMEOUT_MS = 20_000

export interface OrderedBuyerOptions {
  /** Checksummed 0x address, or base58: whose money it is. */
  readonly address: string
  readonly networks: ReadonlySet<NetworkId>
  /** Default: the network's public node. */
  readonly rpcUrl?: string
  /**
   * Has the payment made by whoever holds the key. May take as long as a person needs.
   *
   * @returns x402 `payload`, whatever it holds
   * @throws {BuyerRefusal}
   */
  order(terms: OfferTerms, order: Order, signal: AbortSignal): Promise<Readonly<Record<string, unknown>>>
  readonly check: CheckPayment
}

/**
 * Form, terms, times and signature of a payment in a token that we know, without the chain; never throws, whatever the
 * payload holds. The check by which a gateway takes payments.
 */
export type CheckPayment = Settler['check']

/**
 * A wallet without a key: somebody else signs, and what comes back is believed only as far as it was asked for. It has to
 * pay exactly the terms, from the address that was named, with its own signature, and nothing else may happen in it. The
 * check is the one by which a gateway takes payments.
 */
export function createOrderedBuyer(options: OrderedBuyerOptions): Buyer {
  const { address, networks, rpcUrl } = options
  let hasSigned = false
  /** What the chain refuses was not signed, and another offer may be. */
  const again = (error: unknown): never => {
    hasSigned = false
    throw error
  }

  const objectTo = (terms: OfferTerms): string | undefined =>
    isSolana(terms) ? solanaTermsFault(terms, address) : evmTermsFault(terms, address)

  return {
    address,
    networks,
    asksAPerson: true,
    objectTo,
    async sign(terms, signal, order) {
      if (hasSigned) throw new BuyerRefusal('This run has signed a payment; it signs no second one.')
      hasSigned = true
      const problem = objectTo(terms)
      if (problem !== undefined) throw new BuyerRefusal(`The offer was not signed: ${problem}.`)
      const early = await boundBefore(terms, address, rpcUrl, inTime(signal)).catch(again)
      const payload = await options.order(terms, order, signal)
      const checked = await check(options.check, terms, payload)
      if (!checked.ok) throw new BuyerRefusal(`${notAsOrdered} ${checked.message} It was not sent.`)
      const { identity } = checked
      if (identity.payer !== address)
        throw new BuyerRefusal(`${notAsOrdered} It is from ${identity.payer}. It was not sent.`)
      return {
        network: terms.asset.network,
        asset: terms.asset.address,
        amount: terms.amountAtomic.toString(),
        payTo: isSolana(terms) ? terms.payTo : checksumAddress(terms.payTo.toLowerCase()),
        payer: address,
        payload,
        validBeforeMs: identity.validBeforeMs,
        blockBound: isSolana(terms) ? await boundAfter(terms, rpcUrl, inTime(signal)) : early,
      } satisfies SignedPayment
    },
  }
}

const notAsOrdered = 'What came back for signing is not the payment that was asked for.'

const isSolana = ({ asset }: OfferTerms): boolean => familyOf(asset.network) === 'solana'

const inTime = (interrupt: AbortSignal): AbortSignal =>
  AbortSignal.any([interrupt, AbortSignal.timeout(CHAIN_TIMEOUT_MS)])

/** EVM: the block before which the payment can not be on chain. */
async function boundBefore(
  terms: OfferTerms,
  address: string,
  rpcUrl: string | undefined,
  signal: AbortSignal,
): Promise<number> {
  if (!isSolana(terms)) return await askEvmChain(terms, address, rpcUrl, signal)
  return (await askSolanaChain(terms, address, rpcUrl, signal)).lastValidBlockHeight
}

/** Solana: the last height at which the payment may land, whichever block's hash was taken while it was ordered. */
const boundAfter = async (
  terms: OfferTerms,
  rpcUrl: string | undefined,
  signal: AbortSignal,
): Promise<number> => (await askLatestBlock(terms, rpcUrl, signal)).lastValidBlockHeight

async function check(
  checkPayment: CheckPayment,
  terms: OfferTerms,
  payload: Readonly<Record<string, unknown>>,
): Promise<Checked> {
  const { network, address: asset } = terms.asset
  const { payTo, maxTimeoutSeconds, extra } = terms
  const parts = isSolana(terms) ? ['transaction'] : ['authorization', 'signature']
  if (Object.keys(payload).sort().join() !== parts.join())
    return { ok: false, reason: 'payload', message: `Expected a payload of ${parts.join(' and ')}.` }
  const wanted = {
    scheme: 'exact',
    network,
    amount: terms.amountAtomic.toString(),
    asset,
    payTo,
    maxTimeoutSeconds,
    extra,
  } as const
  return await checkPayment({ x402Version: 2, scheme: 'exact', network, payload }, wanted)
}
