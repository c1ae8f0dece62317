import { html } from '../html.ts'

/** The mark: a gate that opens, and a coin. `styles/mark.svg` is the same on a tile. */
export const Mark = () =>
  html`<svg class="mark" viewBox="0 0 32 32" aria-hidden="true">
    <g fill="none" stroke="currentColor" stroke-width="3" stroke-linecap="round">
      <path d="M7 27V11M7 15.5L27 6.5M4 27h6" /><circle cx="21.5" cy="21.5" r="5" />
    </g>
  </svg>`
