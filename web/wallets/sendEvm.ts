import { switchTo } from './signEvm.ts'
import { type Eip1193, type EvmWallet, sendFaultOf, WalletFault } from './wallet.ts'

/** A token transfer that an EVM wallet sends. The wallet pays the gas. */
export interface EvmTransfer {
  readonly network: string
  /** Address of the token. */
  readonly asset: string
  readonly from: string
  readonly to: string
  readonly amountAtomic: bigint
}

/** Selector of ERC-20's `transfer(address,uint256)`. */
const transferSelector = '0xa9059cbb'

/**
 * Has a wallet send an ERC-20 transfer.
 * @returns the hash of the transaction, which is not in a block yet
 * @throws {WalletFault}
 */
export async function sendEvm(wallet: EvmWallet, transfer: EvmTransfer): Promise<string> {
  const { network, asset, from, to, amountAtomic } = transfer
  const { name } = wallet
  /** Some wallets throw instead of rejecting. */
  const provider: Eip1193 = { request: async (args) => wallet.provider.request(args) }
  await switchTo({ ...wallet, provider }, network)
  const word = (hex: string) => hex.padStart(64, '0')
  const data = `${transferSelector}${word(to.slice(2).toLowerCase())}${word(amountAtomic.toString(16))}`
  const hash = await provider
    .request({ method: 'eth_sendTransaction', params: [{ from, to: asset, data, value: '0x0' }] })
    .catch((error: unknown) => {
      throw sendFaultOf(error, name)
    })
  if (typeof hash !== 'string' || !/^0x[0-9a-f]{64}$/i.test(hash))
    throw new WalletFault(
      'failed',
      `${name} returned no transaction. Check in the wallet whether the transfer was sent before you try again.`,
    )
  return hash
}
