import { readWireTransaction } from '../../core/solana/wire.ts'
import { buildSolanaPayment } from '../../core/x402/solanaPayment.ts'
import { type SignOptions, type Terms, tooLittle } from './terms.ts'
import { faultOf, type SolanaWallet, type StandardAccount, WalletFault } from './wallet.ts'

/** The Wallet Standard's names of clusters, by the genesis hash in their CAIP-2 id. */
const clusters: Readonly<Record<string, string>> = {
  'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp': 'solana:mainnet',
  'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1': 'solana:devnet',
  'solana:4uhcVJyU9pJkvQyS88uRDiswHXSCkY3z': 'solana:testnet',
}

export const clusterOf = (network: string): string => clusters[network] ?? 'solana:localnet'

interface Connect {
  connect(): Promise<{ readonly accounts: readonly StandardAccount[] }>
}

interface SignTransaction {
  readonly supportedTransactionVersions: readonly unknown[]
  signTransaction(
    ...inputs: readonly object[]
  ): Promise<readonly { readonly signedTransaction: Uint8Array }[]>
}

/**
 * Has a Solana wallet sign the payment's transfer (x402, scheme `exact` on SVM). The fee payer signs afterwards and pays the
 * fee.
 * @returns the `payload` of the payment
 * @throws {WalletFault}
 */
export async function signSolana(wallet: SolanaWallet, terms: Terms, options: SignOptions): Promise<object> {
  const { standard, name } = wallet
  const { entry, asset, amountAtomic } = terms
  const chain = clusterOf(entry.network)
  const signer = standard.features['solana:signTransaction'] as SignTransaction | undefined
  if (signer?.supportedTransactionVersions.includes(0) !== true)
    throw new WalletFault(
      'unfit',
      `${name} can't sign a transaction without sending it. Choose another wallet.`,
    )
  if (!standard.chains.includes(chain))
    throw new WalletFault('wrong_network', `${name} does not support ${chain.replace('solana:', 'Solana ')}.`)
  options.onStep('connecting')
  const { connect } = standard.features['standard:connect'] as Connect
  // Some wallets throw instead of rejecting, or return something else.
  const accounts = await (async () => (await connect()).accounts)().catch(throwFault(name))
  const account = Array.isArray(accounts)
    ? ((accounts.find((one) => one?.chains?.includes(chain)) ?? accounts[0]) as StandardAccount | undefined)
    : undefined
  if (typeof account?.address !== 'string')
    throw new WalletFault('declined', `${name} shared no account with this page.`)
  if (account.address === entry.payTo || account.address === entry.extra['feePayer'])
    throw new WalletFault('unfit', 'This wallet belongs to the seller. Choose another account.')

  options.onPayer?.(account.address)
  options.onStep('checking')
  const state = await options.queryPayer(entry.network, account.address, entry.asset)
  if (state.balanceAtomic < amountAtomic) throw tooLittle(state.balanceAtomic, terms)
  const transaction = buildSolanaPayment(
    {
      scheme: 'exact',
      asset,
      amountAtomic,
      payTo: entry.payTo,
      maxTimeoutSeconds: entry.maxTimeoutSeconds,
      extra: entry.extra,
    },
    account.address,
    state.recentBlockhash,
  )
  options.onStep('signing')
  const wire = await (async () => {
    const [signed] = await signer.signTransaction({ account, transaction, chain })
    return signed && readWireTransaction(signed.signedTransaction)
  })().catch(throwFault(name))
  // The first signature is that of the fee payer, which signs at the gateway.
  if (wire?.signatures[1]?.some((byte) => byte !== 0) !== true)
    throw new WalletFault('failed', `${name} returned no signature.`)
  return { transaction: toBase64(wire.bytes) }
}

const toBase64 = (bytes: Uint8Array): string => btoa(String.fromCharCode(...bytes))

const throwFault =
  (name: string) =>
  (error: unknown): never => {
    throw faultOf(error, name)
  }
