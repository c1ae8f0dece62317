import { ChannelHashes } from '../../core/domain/channelHashes.ts'
import { familyOf, type NetworkId } from '../../core/domain/network.ts'
import { checksumAddress } from '../../core/evm/hex.ts'
import type { Checked, Settler } from '../../core/ports/chains/settler.ts'
import { readChannelPayment } from '../../core/x402/channelPayment.ts'
import { channelConfigOf } from '../../core/x402/channelTerms.ts'
import { evmTermsFault } from '../../core/x402/evmTermsFault.ts'
import type { OfferTerms } from '../../core/x402/offerTerms.ts'
import { solanaTermsFault } from '../../core/x402/solanaTermsFault.ts'
import { type Buyer, BuyerRefusal, type ChannelOrder, type Order, type SignedPayment } from '../buyer.ts'
import { depositSigner, voucherSigner } from '../chains/channelSigners.ts'
import { readEvmChain } from '../chains/evmBuyer.ts'
import { readLatestBlock, readSolanaChain } from '../chains/solanaBuyer.ts'

/** Time limit for queries to the chain, in ms. It applies once before the order and once after it. */
const CHAIN_TIMEOUT_MS = 20_000

export interface OrderedBuyerOptions {
  /** The account that pays, as a checksummed 0x address or base58. */
  readonly address: string
  readonly networks: ReadonlySet<NetworkId>
  /** If absent, the network's public node. */
  readonly rpcUrl?: string
  /**
   * Orders the payment from the external signer. This may take as long as a person needs.
   *
   * @returns x402 `payload`, unchecked
   * @throws {BuyerRefusal}
   */
  order(
    terms: OfferTerms,
    order: Order & { readonly channel?: ChannelOrder },
    signal: AbortSignal,
  ): Promise<Readonly<Record<string, unknown>>>
  readonly check: CheckPayment
}

/**
 * Checks form, terms, times and signature of a payment in a known token, without the chain. Never throws. Gateways accept payments
 * by the same check.
 */
export type CheckPayment = Settler['check']

/**
 * A wallet without a key, for which an external signer signs. The payment must be exactly what was ordered. It must pay the exact
 * terms from the named address, with that address's signature, and do nothing else. Gateways accept payments by the same check.
 */
export function createOrderedBuyer(options: OrderedBuyerOptions): Buyer {
  const { address, networks, rpcUrl } = options
  let hasSigned = false
  /** Allows the wallet to order another payment, because the signer has not signed this payment, which cannot succeed on chain. */
  const again = (error: unknown): never => {
    hasSigned = false
    throw error
  }

  const objectTo = (terms: OfferTerms): string | undefined =>
    isSolana(terms) ? solanaTermsFault(terms, address) : evmTermsFault(terms, address)

  return {
    address,
    networks,
    waitsForPerson: true,
    objectTo,
    async signChannel(terms, channel, signal, order) {
      const problem = objectTo(terms)
      if (problem !== undefined) throw new BuyerRefusal(`The offer was not signed: ${problem}.`)
      const { totalAtomic, depositAtomic } = channel
      if (depositAtomic !== null)
        await boundBefore({ ...terms, amountAtomic: depositAtomic }, address, rpcUrl, inTime(signal))
      const read = readChannelPayment(await options.order(terms, { ...order, channel }, signal))
      if (!read.ok) throw new BuyerRefusal(`${notAsOrdered} ${read.message} It was not sent.`)
      const { channelId, maxClaimable, signature, deposit } = read.payment
      const { network } = terms.asset
      const payer = address.toLowerCase()
      const id = new ChannelHashes(Number(network.slice('eip155:'.length))).channelId(
        channelConfigOf(terms, address),
      )
      const isVoucher = channelId === id && maxClaimable === totalAtomic
      const isSigned = isVoucher && (await voucherSigner(network, id, totalAtomic, signature)) === payer
      const isDeposit =
        deposit === null
          ? depositAtomic === null
          : !('permit2' in deposit) &&
            deposit.amount === depositAtomic &&
            (await depositSigner(terms, id, address, deposit)) === payer
      if (!isSigned || !isDeposit)
        throw new BuyerRefusal(`${notAsOrdered} The voucher or the deposit differs, so it was not sent.`)
      return { signature, deposit }
    },
    async sign(terms, signal, order) {
      if (hasSigned)
        throw new BuyerRefusal('This run has already signed a payment and does not sign a second one.')
      hasSigned = true
      const problem = objectTo(terms)
      if (problem !== undefined) throw new BuyerRefusal(`The offer was not signed: ${problem}.`)
      const early = await boundBefore(terms, address, rpcUrl, inTime(signal)).catch(again)
      const payload = await options.order(terms, order, signal)
      const checked = await check(options.check, terms, payload)
      if (!checked.ok) throw new BuyerRefusal(`${notAsOrdered} ${checked.message} The payment was not sent.`)
      const { identity } = checked
      if (identity.payer !== address)
        throw new BuyerRefusal(`${notAsOrdered} The payment is from ${identity.payer} and was not sent.`)
      return {
        scheme: terms.scheme,
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

const notAsOrdered = 'The signed payment is not the one that was ordered.'

const isSolana = ({ asset }: OfferTerms): boolean => familyOf(asset.network) === 'solana'

const inTime = (interrupt: AbortSignal): AbortSignal =>
  AbortSignal.any([interrupt, AbortSignal.timeout(CHAIN_TIMEOUT_MS)])

/** The block bound on EVM, which is a block before which the payment cannot be on chain. */
async function boundBefore(
  terms: OfferTerms,
  address: string,
  rpcUrl: string | undefined,
  signal: AbortSignal,
): Promise<number> {
  if (!isSolana(terms)) return await readEvmChain(terms, address, rpcUrl, signal)
  return (await readSolanaChain(terms, address, rpcUrl, signal)).lastValidBlockHeight
}

/**
 * The block bound on Solana, which is the last height at which the payment may land. It holds for any blockhash that the signer
 * could have used.
 */
const boundAfter = async (
  terms: OfferTerms,
  rpcUrl: string | undefined,
  signal: AbortSignal,
): Promise<number> => (await readLatestBlock(terms, rpcUrl, signal)).lastValidBlockHeight

async function check(
  checkPayment: CheckPayment,
  terms: OfferTerms,
  payload: Readonly<Record<string, unknown>>,
): Promise<Checked> {
  const { network, address: asset } = terms.asset
  const { scheme, payTo, maxTimeoutSeconds, extra } = terms
  const parts = partsOf(terms)
  if (Object.keys(payload).sort().join() !== parts.join())
    return { ok: false, reason: 'payload', message: `Expected a payload of ${parts.join(' and ')}.` }
  const wanted = {
    scheme,
    network,
    amount: terms.amountAtomic.toString(),
    asset,
    payTo,
    maxTimeoutSeconds,
    extra,
  } as const
  return await checkPayment({ x402Version: 2, scheme, network, payload }, wanted)
}

/** The fields of the x402 `payload`, in alphabetical order. */
function partsOf(terms: OfferTerms): readonly string[] {
  if (isSolana(terms)) return ['transaction']
  return [terms.permit2 === undefined ? 'authorization' : 'permit2Authorization', 'signature']
}
