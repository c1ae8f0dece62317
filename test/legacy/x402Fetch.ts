/**
 * `x402-fetch`, the client of version 1, as far as the tests use it. It is no dependency of the project but of
 * test/legacy/package.json, so neither tsc nor the other tests look for it.
 */
interface X402Fetch {
  wrapFetchWithPayment(
    fetch: typeof globalThis.fetch,
    signer: unknown,
    maxAmountAtomic?: bigint,
    select?: undefined,
    config?: { readonly svmConfig: { readonly rpcUrl: string } },
  ): typeof globalThis.fetch
  createSigner(network: string, privateKey: string): Promise<unknown>
}

const packageName: string = 'x402-fetch'

export const { wrapFetchWithPayment, createSigner } = (await import(packageName)) as X402Fetch
