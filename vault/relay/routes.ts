import type { Peer } from './peer.ts'

/** Who is behind which routing id, in memory only. Keys are hex. */
export class Routes {
  /** All that proved an id and are still there; the last one has it. */
  readonly #vaults = new Map<string, Peer[]>()
  readonly #routesOf = new Map<Peer, Set<string>>()
  readonly #agents = new Map<string, Set<Peer>>()
  readonly #routeOf = new Map<Peer, string>()

  /** Gives a route to a vault. @returns the connection that had it before, if another. */
  register(route: string, vault: Peer): Peer | undefined {
    const before = this.vaultOf(route)
    const others = (this.#vaults.get(route) ?? []).filter((one) => one !== vault)
    this.#vaults.set(route, [...others, vault])
    const routes = this.#routesOf.get(vault) ?? new Set()
    routes.add(route)
    this.#routesOf.set(vault, routes)
    return before === vault ? undefined : before
  }

  /** Takes a route from a vault. @returns whether it had it; then whoever proved it before has it again, if anybody. */
  unregister(route: string, vault: Peer): boolean {
    const all = this.#vaults.get(route) ?? []
    const left = all.filter((one) => one !== vault)
    if (left.length > 0) this.#vaults.set(route, left)
    else this.#vaults.delete(route)
    this.#routesOf.get(vault)?.delete(route)
    return all.at(-1) === vault
  }

  attach(route: string, agent: Peer): void {
    const agents = this.#agents.get(route) ?? new Set()
    agents.add(agent)
    this.#agents.set(route, agents)
    this.#routeOf.set(agent, route)
  }

  /** Forgets a connection. @returns the routes that it had: nobody has them now, or who had them before. */
  remove(peer: Peer): readonly string[] {
    const held = [...(this.#routesOf.get(peer) ?? [])]
    const lost = held.filter((route) => this.unregister(route, peer))
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

  vaultOf = (route: string): Peer | undefined => this.#vaults.get(route)?.at(-1)
  agentsOf = (route: string): ReadonlySet<Peer> => this.#agents.get(route) ?? none
  routeOfAgent = (agent: Peer): string | undefined => this.#routeOf.get(agent)
  routesOfVault = (vault: Peer): ReadonlySet<string> => this.#routesOf.get(vault) ?? noRoutes

  get counts(): { readonly routes: number; readonly agents: number } {
    return { routes: this.#vaults.size, agents: this.#routeOf.size }
  }
}

const none: ReadonlySet<Peer> = new Set()
const noRoutes: ReadonlySet<string> = new Set()
