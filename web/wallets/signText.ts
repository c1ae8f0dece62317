import {
  type EvmWallet,
  faultOf,
  type SolanaWallet,
  type StandardAccount,
  type Wallet,
  WalletFault,
} from './wallet.ts'

/** An account that a wallet has shared with this page. */
export interface ConnectedWallet {
  /** The API's name of the chain. */
  readonly chain: 'base' | 'solana'
  readonly address: string
  /**
   * Has the wallet sign a text that the API created (EIP-191; on Solana `solana:signMessage`).
   * @returns the signature, as hex for Base and as base64 for Solana
   * @throws {WalletFault}
   */
  signText(text: string): Promise<string>
}

/** Requests an account from the wallet. @throws {WalletFault} */
export const connectWallet = (wallet: Wallet): Promise<ConnectedWallet> =>
  wallet.family === 'solana' ? connectSolana(wallet) : connectEvm(wallet)

async function connectEvm({ provider, name }: EvmWallet): Promise<ConnectedWallet> {
  const ask = (method: string, ...params: unknown[]) =>
    provider.request({ method, params }).catch((error: unknown) => {
      throw faultOf(error, name)
    })
  const [address] = (await ask('eth_requestAccounts')) as string[]
  if (typeof address !== 'string') throw noAccount(name)
  return {
    chain: 'base',
    address,
    async signText(text) {
      const bytes = [...new TextEncoder().encode(text)]
      const hex = bytes.map((byte) => byte.toString(16).padStart(2, '0')).join('')
      return String(await ask('personal_sign', `0x${hex}`, address))
    },
  }
}

interface Connect {
  connect(): Promise<{ readonly accounts: readonly StandardAccount[] }>
}

interface SignMessage {
  signMessage(input: object): Promise<readonly { readonly signature: Uint8Array }[]>
}

async function connectSolana({ standard, name }: SolanaWallet): Promise<ConnectedWallet> {
  const signer = standard.features['solana:signMessage'] as SignMessage | undefined
  if (signer === undefined)
    throw new WalletFault('unfit', `${name} can't sign a text. Choose another wallet.`)
  const asFault = (error: unknown): never => {
    throw faultOf(error, name)
  }
  const { connect } = standard.features['standard:connect'] as Connect
  const [account] = (await connect().catch(asFault)).accounts
  if (account === undefined) throw noAccount(name)
  return {
    chain: 'solana',
    address: account.address,
    async signText(text) {
      const message = new TextEncoder().encode(text)
      const [signed] = await signer.signMessage({ account, message }).catch(asFault)
      return btoa(String.fromCharCode(...(signed?.signature ?? [])))
    },
  }
}

const noAccount = (name: string): WalletFault =>
  new WalletFault('declined', `${name} shared no account with this page.`)
