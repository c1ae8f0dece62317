import { randomBytes } from 'node:crypto'
import { bytesToHex, domainSeparator, getAddress, type Hex } from 'viem'
import { type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'
import type { ChannelId } from '../../core/domain/channel.ts'
import { ChannelHashes } from '../../core/domain/channelHashes.ts'
import { formatAmount } from '../../core/domain/money.ts'
import { permit2, permit2Address } from '../../core/evm/permit2.ts'
import { type EvmCall, reading, token, wordOf } from '../../core/evm/token.ts'
import { quantity, RpcUnreachable } from '../../core/rpc/post.ts'
import type { DepositAuthorization } from '../../core/x402/channelPayment.ts'
import {
  channelConfigOf,
  depositPermitOf,
  depositTypedData,
  permit2DepositTypedData,
  voucherTypedData,
} from '../../core/x402/channelTerms.ts'
import { evmTermsFault } from '../../core/x402/evmTermsFault.ts'
import type { OfferTerms } from '../../core/x402/offerTerms.ts'
import { permit2Payment } from '../../core/x402/permit2Payment.ts'
import { transferTypes } from '../../core/x402/types.ts'
import {
  BuyerRefusal,
  type KeyBuyer,
  type SignedChannel,
  type SignedPayment,
  UnpayableTerms,
} from '../buyer.ts'
import { createJsonRpc, publicRpcUrl, unexpected } from './jsonRpc.ts'

/** Longest validity of a signed authorization, in seconds, even if the seller requests more. */
const MAX_VALIDITY_SECONDS = 3_600
/** How far the seller's chain may be behind this machine's clock, in seconds, as in the reference client. */
const CLOCK_SKEW_SECONDS = 600

export interface EvmBuyerOptions {
  /** 32 bytes in hex with 0x. */
  readonly privateKey: Hex
  /** If absent, the network's public node. */
  readonly rpcUrl?: string
  /** Time in ms since 1970. Tests replace it. */
  readonly now?: () => number
}

/**
 * A wallet that signs one payment for an offer in a known token, which is an authorization of EIP-3009 or a permit of Permit2 for the
 * x402 proxy. It never signs an approval, another permit or a transaction.
 *
 * @example const buyer = createEvmBuyer({ privateKey: '0x…' })
 * const payment = await buyer.sign(terms, AbortSignal.timeout(10_000))
 */
export function createEvmBuyer(options: EvmBuyerOptions): KeyBuyer {
  const account = privateKeyToAccount(options.privateKey)
  const now = options.now ?? Date.now
  let hasSigned = false
  let hasDeposited = false
  /** Allows the wallet to sign another offer, because it has not signed this payment, which cannot succeed on chain. */
  const again = (error: unknown): never => {
    hasSigned = false
    throw error
  }

  return {
    address: account.address,
    objectTo: (terms) => evmTermsFault(terms, account.address),
    signText: (message) => account.signMessage({ message }),
    async signChannel(terms, { totalAtomic, depositAtomic }, signal) {
      const problem = evmTermsFault(terms, account.address)
      if (problem !== undefined) throw new BuyerRefusal(`The offer was not signed: ${problem}.`)
      const id = new ChannelHashes(chainIdOf(terms)).channelId(channelConfigOf(terms, account.address))
      let deposit: SignedChannel['deposit'] = null
      if (depositAtomic !== null) {
        if (hasDeposited) throw new BuyerRefusal('This run has already signed a deposit.')
        await readEvmChain({ ...terms, amountAtomic: depositAtomic }, account.address, options.rpcUrl, signal)
        hasDeposited = true
        deposit = await signDeposit(account, terms, id, depositAtomic, Math.floor(now() / 1_000))
      }
      const signature = await account.signTypedData(voucherTypedData(terms.asset.network, id, totalAtomic))
      return { signature, deposit }
    },
    async sign(terms, signal) {
      if (hasSigned)
        throw new BuyerRefusal('This run has already signed a payment and does not sign a second one.')
      hasSigned = true
      const problem = evmTermsFault(terms, account.address)
      if (problem !== undefined) throw new BuyerRefusal(`The offer was not signed: ${problem}.`)
      const blockBound = await readEvmChain(terms, account.address, options.rpcUrl, signal).catch(again)
      const nowSeconds = Math.floor(now() / 1_000)
      const signed =
        terms.permit2 === undefined
          ? await signTransfer(account, terms, nowSeconds)
          : await signPermit(account, terms, nowSeconds)
      return {
        scheme: terms.scheme,
        network: terms.asset.network,
        asset: terms.asset.address,
        amount: terms.amountAtomic.toString(),
        payTo: getAddress(terms.payTo),
        payer: account.address,
        ...signed,
        blockBound,
      } satisfies SignedPayment
    },
  }
}

type Signed = Pick<SignedPayment, 'payload' | 'validBeforeMs'>

const validUntil = (nowSeconds: number, { maxTimeoutSeconds }: OfferTerms): number =>
  nowSeconds + Math.min(maxTimeoutSeconds, MAX_VALIDITY_SECONDS)

/** Signs an authorization of EIP-3009. */
async function signTransfer(
  account: PrivateKeyAccount,
  terms: OfferTerms,
  nowSeconds: number,
): Promise<Signed> {
  const validBefore = validUntil(nowSeconds, terms)
  const authorization = {
    from: account.address,
    to: getAddress(terms.payTo),
    value: terms.amountAtomic.toString(),
    validAfter: String(nowSeconds - CLOCK_SKEW_SECONDS),
    validBefore: String(validBefore),
    nonce: bytesToHex(randomBytes(32)),
  }
  const signature = await account.signTypedData({
    domain: domainOf(terms),
    types: transferTypes,
    primaryType: 'TransferWithAuthorization',
    message: {
      ...authorization,
      value: terms.amountAtomic,
      validAfter: BigInt(authorization.validAfter),
      validBefore: BigInt(authorization.validBefore),
    },
  })
  return { payload: { signature, authorization }, validBeforeMs: validBefore * 1_000 }
}

/** Signs a deposit into the wallet's channel, by ERC-3009 or Permit2 as the offer says. */
async function signDeposit(
  account: PrivateKeyAccount,
  terms: OfferTerms,
  id: ChannelId,
  amount: bigint,
  nowSeconds: number,
): Promise<DepositAuthorization> {
  const validBefore = BigInt(validUntil(nowSeconds, terms))
  const random = BigInt(bytesToHex(randomBytes(32)))
  if (terms.permit2 !== undefined) {
    const permit = {
      amount,
      validBefore,
      permit2: depositPermitOf(terms, id, account.address, amount, random),
    }
    const typedData = permit2DepositTypedData(terms.asset.network, permit)
    return { ...permit, signature: await account.signTypedData(typedData) }
  }
  const unsigned = { amount, validAfter: 0n, validBefore, salt: random }
  const signature = await account.signTypedData(depositTypedData(terms, id, account.address, unsigned))
  return { ...unsigned, signature }
}

/** Signs a permit of Permit2 for the x402 proxy. */
async function signPermit(
  account: PrivateKeyAccount,
  terms: OfferTerms,
  nowSeconds: number,
): Promise<Signed> {
  const deadline = validUntil(nowSeconds, terms)
  const nonce = bytesToHex(randomBytes(32))
  const { permit2Authorization, typedData } = permit2Payment(terms, {
    from: account.address,
    nonce,
    deadline,
  })
  const signature = await account.signTypedData(typedData)
  // Permit2 still accepts the permit in the second of its deadline.
  return { payload: { signature, permit2Authorization }, validBeforeMs: (deadline + 1) * 1_000 }
}

const chainIdOf = ({ asset }: Pick<OfferTerms, 'asset'>): number =>
  Number(asset.network.slice('eip155:'.length))

/** The EIP-712 domain of the offer's token, as Tollgate's list of tokens has it. */
const domainOf = ({ asset }: OfferTerms) => ({
  name: asset.eip712!.name,
  version: asset.eip712!.version,
  chainId: chainIdOf({ asset }),
  verifyingContract: getAddress(asset.address),
})

/**
 * Checks on chain that a payment can succeed. The chain must be the right one, and the balance must suffice. For EIP-3009, the EIP-712
 * domain must be the token's own. For Permit2, the payer must have allowed Permit2 to move the amount.
 *
 * @param rpcUrl if undefined, the network's public node
 * @returns number of the latest block, before which the payment cannot be on chain
 * @throws {UnpayableTerms} with a message for the user
 */
export async function readEvmChain(
  terms: OfferTerms,
  payer: string,
  rpcUrl: string | undefined,
  signal: AbortSignal,
): Promise<number> {
  const { asset, amountAtomic } = terms
  const isByPermit2 = terms.permit2 !== undefined
  const url = rpcUrl ?? publicRpcUrl(asset.network)
  if (url === undefined)
    throw new UnpayableTerms(`No default node is known for ${asset.network}. Set a node with --rpc.`)
  const rpc = createJsonRpc(url, asset.network)
  const { address } = asset
  const read = async (call: EvmCall): Promise<bigint> => {
    const { method, params } = reading(call)
    const word = wordOf(await rpc(method, params, signal))
    if (word === undefined) throw unexpected(method)
    return word
  }
  try {
    const [right, balance, block] = await Promise.all([
      read(isByPermit2 ? permit2.allowance(address, payer) : token.domainSeparator(address)),
      read(token.balanceOf(address, payer)),
      rpc('eth_blockNumber', [], signal),
    ])
    if (!isByPermit2 && right !== BigInt(domainSeparator({ domain: domainOf(terms) }))) {
      throw new UnpayableTerms(
        `The token at ${getAddress(address)} has a different EIP-712 domain than ${asset.symbol}. Nothing was signed.`,
      )
    }
    if (balance < amountAtomic) {
      const has = formatAmount(balance, asset.decimals, 2)
      const needs = formatAmount(amountAtomic, asset.decimals, 2)
      throw new UnpayableTerms(
        `${payer} has ${has} ${asset.symbol}, but the price is ${needs}. Nothing was signed.`,
      )
    }
    if (isByPermit2 && right < amountAtomic) throw new UnpayableTerms(lacksAllowance(terms, payer, right))
    return Number(quantity(block))
  } catch (error) {
    if (error instanceof RpcUnreachable)
      throw new UnpayableTerms(`${error.message}. Nothing was signed.`, { cause: error })
    throw error
  }
}

/** The message for a payer whose tokens Permit2 may not move, with the command that allows it. */
function lacksAllowance({ asset, amountAtomic }: OfferTerms, payer: string, allowed: bigint): string {
  const [may, needs] = [allowed, amountAtomic].map((amount) => formatAmount(amount, asset.decimals, 2))
  const command = `cast send ${getAddress(asset.address)} 'approve(address,uint256)' ${getAddress(permit2Address)} ${amountAtomic} --rpc-url URL`
  return `Permit2 may move ${may} ${asset.symbol} of ${payer}, but this payment needs ${needs}. Allow Permit2 once, from that wallet: ${command} (a larger amount also covers later payments). Nothing was signed.`
}
