import type { LiteSVM } from 'litesvm'

/** litesvm's branded address type. This project uses plain base58 strings. */
export type SvmAddress = Parameters<LiteSVM['getAccount']>[0]

/** An account as bytes. */
export type RawAccount = {
  lamports: bigint
  owner: string
  data: Uint8Array
  executable: boolean
}

/** An account of the SVM. Undefined if there is none. */
export function readAccount(svm: LiteSVM, address: string): RawAccount | undefined {
  const account = svm.getAccount(address as SvmAddress)
  // An account without lamports is deleted at the end of its transaction, but litesvm may still have an empty shell of it.
  if (!account.exists || account.lamports === 0n) return undefined
  return {
    lamports: BigInt(account.lamports),
    owner: account.programAddress,
    data: Uint8Array.from(account.data),
    executable: account.executable,
  }
}

/** Creates or replaces an account, without any check of the runtime. */
export function writeAccount(svm: LiteSVM, address: string, account: RawAccount): void {
  svm.setAccount({
    address: address as SvmAddress,
    lamports: account.lamports as ReturnType<LiteSVM['getBalance']> & bigint,
    programAddress: account.owner as SvmAddress,
    data: account.data,
    executable: account.executable,
    space: BigInt(account.data.length),
  })
}
