import type { Peer } from './peer.ts'

/** Who is behind which routing id, in memory only. Keys are hex. */
export class Routes {
  readonly #vaults = new Map<string, Peer>()
  readonly #routesOf = new Map<Peer, Set<string>>()
  readonly #agents = new Map<string, Set<Peer>>()
  readonly #routeOf = new Map<Peer, string>()

  /** Gives a route to a vault. @returns the connection that had it before, if another. */
  register(route: string, vault: Peer): Peer | undefined {
    const before = this.#vaults.get(route)
    if (before !== undefined && before !== vault) this.#routesOf.get(before)?.delete(route)
    this.#vaults.set(route, vault)
    const routes = this.#routesOf.get(vault) ?? new Set()
    routes.add(route)
    this.#routesOf.set(vault, routes)
    return before === vault ? undefined : before
  }

  /** True when the route was this vault's. */
  unregister(route: string, vault: Peer): boolean {
    if (this.#vaults.get(route) !== vault) return false
    this.#vaults.delete(route)
    this.#routesOf.get(vault)?.delete(route)
    return true
  }

  attach(route: string, agent: Peer): void {
    const agents = this.#agents.get(route) ?? new Set()
    agents.add(agent)
    this.#agents.set(route, agents)
    this.#routeOf.set(agent, route)
  }

  /** Forgets a connection. @returns the routes that lost their vault. */
  remove(peer: Peer): readonly string[] {
    const lost = [...(this.#routesOf.get(peer) ?? [])]
    for (const route of lost) this.#vaults.delete(route)
    this.#routesOf.delete(peer)
    const route = this.#routeOf.get(peer)
    if (route !== undefined) {
      const agents = this.#agents.get(route)
      agents?.delete(peer)
      if (agents?.size === 0) this.#agents.delete(route)
      this.#routeOf.delete(peer)
    }
    return lost
  }

  vaultOf = (route: string): Peer | undefined => this.#vaults.get(route)
  agentsOf = (route: string): ReadonlySet<Peer> => this.#agents.get(route) ?? none
  routeOfAgent = (agent: Peer): string | undefined => this.#routeOf.get(agent)
  routesOfVault = (vault: Peer): ReadonlySet<string> => this.#routesOf.get(vault) ?? noRoutes

  get counts(): { readonly routes: number; readonly agents: number } {
    return { routes: this.#vaults.size, agents: this.#routeOf.size }
  }
}

const none: ReadonlySet<Peer> = new Set()
const noRoutes: ReadonlySet<string> = new Set()
