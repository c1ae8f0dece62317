import type { LocalEvm } from '../../localnet/evm/startLocalEvm.ts'
import type { LocalSolana } from '../../localnet/solana/startLocalSolana.ts'

export interface DemoConfigParts {
  readonly dataDir: string
  readonly port: number
  readonly evm: Pick<LocalEvm, 'network' | 'rpcUrl'>
  readonly solana: Pick<LocalSolana, 'network' | 'rpcUrl' | 'wsUrl'>
  readonly operatorToken: string
}

/** The demo's configuration: what an operator would write in tollgate.yaml, for two local chains. */
export function demoConfig({ dataDir, port, evm, solana, operatorToken }: DemoConfigParts): object {
  return {
    publicUrl: `http://127.0.0.1:${port}`,
    gateway: { port, drainTimeoutMs: 1_000 },
    admin: { port: 0 },
    operator: { token: operatorToken },
    storage: { path: `${dataDir}/tollgate.db` },
    secretFile: `${dataDir}/secret`,
    networks: {
      [evm.network]: {
        rpcUrls: [evm.rpcUrl],
        facilitator: { privateKey: '${TOLLGATE_FACILITATOR_EVM_KEY}' },
      },
      [solana.network]: {
        rpcUrls: [solana.rpcUrl],
        wsUrl: solana.wsUrl,
        facilitator: { privateKey: '${TOLLGATE_FACILITATOR_SOLANA_KEY}' },
      },
    },
    // The sample API runs on this machine; on a real gateway, sellers can't point a link at private addresses.
    egress: { allowPrivateCidrs: ['127.0.0.0/8'] },
    plugins: [
      { use: 'rate-limit' },
      { use: 'health' },
      { use: 'x402' },
      { use: 'replay-guard' },
      { use: 'upstream' },
      { use: 'purchase-record' },
      { use: 'metrics' },
    ],
    log: { level: 'warn' },
  }
}
