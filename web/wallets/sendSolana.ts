import { base58 } from '@scure/base'
import { signatureBytes } from '../../core/solana/wire.ts'
import { buildSolanaTransfer, type SolanaTransfer } from '../../core/x402/solanaPayment.ts'
import { clusterOf } from './signSolana.ts'
import { type SolanaWallet, sendFaultOf, WalletFault } from './wallet.ts'

interface SignAndSend {
  readonly supportedTransactionVersions: readonly unknown[]
  signAndSendTransaction(input: object): Promise<readonly { readonly signature: Uint8Array }[]>
}

/**
 * Has a connected Solana wallet send a token transfer and pay the network fee.
 *
 * @param from the wallet's account
 * @param blockhash base58, recent
 * @returns the base58 id of the transaction, which is not in a block yet
 * @throws {WalletFault}
 */
export async function sendSolana(
  { standard, name }: SolanaWallet,
  transfer: SolanaTransfer & { readonly network: string; readonly from: string },
  blockhash: string,
): Promise<string> {
  const chain = clusterOf(transfer.network)
  const sender = standard.features['solana:signAndSendTransaction'] as SignAndSend | undefined
  if (sender?.supportedTransactionVersions.includes(0) !== true || !standard.chains.includes(chain))
    throw new WalletFault(
      'unfit',
      `${name} can’t send a transfer from a page. Send the transfer in the wallet, then enter the transaction below.`,
    )
  const account = standard.accounts.find(({ address }) => address === transfer.from)
  if (account === undefined) throw new WalletFault('declined', `${name} shared no account with this page.`)
  const transaction = buildSolanaTransfer(transfer, transfer.from, blockhash)
  const [sent] = await (async () => sender.signAndSendTransaction({ account, transaction, chain }))().catch(
    (error: unknown) => {
      throw sendFaultOf(error, name)
    },
  )
  if (sent?.signature?.length !== signatureBytes)
    throw new WalletFault(
      'failed',
      `${name} returned no transaction. Check in the wallet whether the transfer was sent before you try again.`,
    )
  return base58.encode(sent.signature)
}
