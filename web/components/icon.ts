import { html } from '../html.ts'

/** Drawings of 24 by 24, in strokes. */
const paths = {
  search: 'M11 4a7 7 0 1 0 0 14a7 7 0 0 0 0-14zM16.5 16.5L21 21',
  check: 'M4.5 12.5l5 5l10-11',
  close: 'M6 6l12 12M18 6L6 18',
  arrow: 'M5 12h14M13 6l6 6l-6 6',
  external: 'M14 4h6v6M20 4l-9 9M18 14v5a1 1 0 0 1-1 1H5a1 1 0 0 1-1-1V7a1 1 0 0 1 1-1h5',
  star: 'M12 3.5l2.6 5.4l5.9.8l-4.3 4.1l1.1 5.9L12 16.8l-5.3 2.9l1.1-5.9L3.5 9.7l5.9-.8z',
  up: 'M7 14l5-5l5 5',
  down: 'M7 10l5 5l5-5',
  thumbUp: 'M7 11v9H4v-9zM7 11l4-8a2.2 2.2 0 0 1 2.2 2.2V9h5.3a2 2 0 0 1 2 2.3l-1.2 7A2 2 0 0 1 17.3 20H7',
  thumbDown: 'M7 13V4H4v9zM7 13l4 8a2.2 2.2 0 0 0 2.2-2.2V15h5.3a2 2 0 0 0 2-2.3l-1.2-7A2 2 0 0 0 17.3 4H7',
  pulse: 'M3 12h4l3-7l4 14l3-7h4',
  bars: 'M5 20v-6M12 20V5M19 20v-10',
  wallet: 'M4 7h14a2 2 0 0 1 2 2v9a2 2 0 0 1-2 2H5a2 2 0 0 1-2-2V6a2 2 0 0 1 2-2h11v3M16.5 13.5h.010',
} as const

export type IconName = keyof typeof paths

/** A small drawing beside words that say the same. */
export const Icon = ({ name }: { readonly name: IconName }) =>
  html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d=${paths[name]} /></svg>`
