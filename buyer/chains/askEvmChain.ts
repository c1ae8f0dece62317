import { domainSeparator, getAddress } from 'viem'
import { formatAmount } from '../../core/domain/money.ts'
import { quantity } from '../../core/evm/quantity.ts'
import { type EvmCall, reading, token, wordOf } from '../../core/evm/token.ts'
import { RpcUnreachable } from '../../core/rpc/rpcError.ts'
import type { OfferTerms } from '../../core/x402/offerTerms.ts'
import { UnpayableTerms } from '../buyer.ts'
import { createJsonRpc, publicRpcUrl, unexpected } from './jsonRpc.ts'

/** The EIP-712 domain that is pinned for the offer's token. */
export const domainOf = ({ asset }: OfferTerms) => ({
  name: asset.eip712!.name,
  version: asset.eip712!.version,
  chainId: Number(asset.network.slice('eip155:'.length)),
  verifyingContract: getAddress(asset.address),
})

/**
 * Asks the chain whether a payment can succeed: right chain, the token's own domain, enough balance.
 *
 * @param rpcUrl default: the network's public node
 * @returns the latest block's number: the payment can not be on chain before it
 * @throws {UnpayableTerms} in words for the user
 */
export async function askEvmChain(
  terms: OfferTerms,
  payer: string,
  rpcUrl: string | undefined,
  signal: AbortSignal,
): Promise<number> {
  const { asset, amountAtomic } = terms
  const domain = domainOf(terms)
  const url = rpcUrl ?? publicRpcUrl(asset.network)
  if (url === undefined)
    throw new UnpayableTerms(`Name a node of ${asset.network} with --rpc; none is known.`)
  const rpc = createJsonRpc(url, asset.network)
  const { address } = asset
  const read = async (call: EvmCall): Promise<bigint> => {
    const { method, params } = reading(call)
    const word = wordOf(await rpc(method, params, signal))
    if (word === undefined) throw unexpected(method)
    return word
  }
  try {
    const [separator, balance, block] = await Promise.all([
      read(token.domainSeparator(address)),
      read(token.balanceOf(address, payer)),
      rpc('eth_blockNumber', [], signal),
    ])
    if (separator !== BigInt(domainSeparator({ domain }))) {
      throw new UnpayableTerms(
        `The token at ${domain.verifyingContract} has another EIP-712 domain than ${asset.symbol}; nothing was signed.`,
      )
    }
    if (balance < amountAtomic) {
      const has = formatAmount(balance, asset.decimals, 2)
      const needs = formatAmount(amountAtomic, asset.decimals, 2)
      throw new UnpayableTerms(
        `${payer} has ${has} ${asset.symbol}, the price is ${needs}; nothing was signed.`,
      )
    }
    return Number(quantity(block))
  } catch (error) {
    if (error instanceof RpcUnreachable)
      throw new UnpayableTerms(`${error.message}. Nothing was signed.`, { cause: error })
    throw error
  }
}
