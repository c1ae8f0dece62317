import { chainNameOf, type NetworkId, networkTitle } from '../../core/domain/network.ts'
import { html } from '../html.ts'

/** A network by its name, or by its id where it has none. */
export const NetworkBadge = ({ network }: { readonly network: string }) =>
  html`<span class="badge network" data-chain=${chainNameOf(network as NetworkId)}
    >${networkTitle(network)}</span
  >`
