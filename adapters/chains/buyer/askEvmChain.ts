import { type Address, domainSeparator, encodeFunctionData, getAddress, type Hex } from 'viem'
import { formatAmount } from '../../../core/domain/money.ts'
import type { OfferTerms } from '../../../core/x402/offerTerms.ts'
import { UnpayableTerms } from './buyer.ts'
import { asHex, assertChainId, callToken, tokenAbi } from './evmToken.ts'
import { createJsonRpc, RpcFailure } from './jsonRpc.ts'
import { publicRpcUrl } from './publicRpc.ts'

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
  const rpc = createJsonRpc(url)
  const token = domain.verifyingContract
  try {
    await assertChainId(rpc, asset.network, signal)
    const read = (data: Hex) => callToken(rpc, token, data, signal)
    const [separator, balance, block] = await Promise.all([
      read(encodeFunctionData({ abi: tokenAbi, functionName: 'DOMAIN_SEPARATOR' })),
      read(encodeFunctionData({ abi: tokenAbi, functionName: 'balanceOf', args: [payer as Address] })),
      rpc('eth_blockNumber', [], signal),
    ])
    if (separator !== domainSeparator({ domain })) {
      throw new UnpayableTerms(
        `The token at ${token} has another EIP-712 domain than ${asset.symbol}; nothing was signed.`,
      )
    }
    if (BigInt(balance) < amountAtomic) {
      const has = formatAmount(BigInt(balance), asset.decimals, 2)
      const needs = formatAmount(amountAtomic, asset.decimals, 2)
      throw new UnpayableTerms(
        `${payer} has ${has} ${asset.symbol}, the price is ${needs}; nothing was signed.`,
      )
    }
    return Number(BigInt(asHex(block, 'eth_blockNumber')))
  } catch (error) {
    if (error instanceof RpcFailure)
      throw new UnpayableTerms(`${error.message} Nothing was signed.`, { cause: error })
    throw error
  }
}
