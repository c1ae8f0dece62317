/** The address of a listener on this machine, as a URL; a wildcard address is reached by loopback. */
export function urlOf({ host, port }: { readonly host: string; readonly port: number }): string {
  if (host === '0.0.0.0' || host === '::') return `http://127.0.0.1:${port}`
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`
}
