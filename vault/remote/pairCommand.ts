/** The values of the command that starts a proxy. */
export interface PairCommand {
  readonly token: string
  readonly serviceId: string
  readonly vaultId: string
  /** Base64. */
  readonly hpkeKey: string
  /** `wss://…` */
  readonly relay: string
  readonly port?: number
}

/** Port of the proxy where nobody says otherwise. */
export const defaultProxyPort = 8421

/** The command to be run where the agent is; safe to paste into a shell. */
export function pairCommand({ token, serviceId, vaultId, hpkeKey, relay, port }: PairCommand): string {
  const options = {
    pair: token,
    'service-id': serviceId,
    vault: vaultId,
    'hpke-key': hpkeKey,
    relay,
    port: String(port ?? defaultProxyPort),
  }
  const words = Object.entries(options).flatMap(([name, value]) => [`--${name}`, quoted(value)])
  return ['tollgate', 'proxy', ...words].join(' ')
}

const quoted = (value: string): string =>
  /^[A-Za-z0-9_.:/+=@-]+$/.test(value) ? value : `'${value.replaceAll("'", "'\\''")}'`
