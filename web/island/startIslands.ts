import { type ComponentType, h, hydrate, render } from 'preact'
import { InsideIsland } from './island.ts'

// biome-ignore lint/suspicious/noExplicitAny: props come out of the page; the component that wrote them knows their type
type AnyComponent = ComponentType<any>

/** Loads a component, by `import()` where the first sight of a page does not need it. */
export type LoadIsland = () => AnyComponent | Promise<AnyComponent>

/** Islands that the server rendered, by their names; loaded with the page. */
export const islandsOf = (
  ...islands: readonly { readonly island: { readonly name: string; readonly component: AnyComponent } }[]
): Record<string, LoadIsland> =>
  Object.fromEntries(islands.map(({ island: { name, component } }) => [name, () => component]))

/** Wakes up what the server rendered, and fills its slots. Called once by each page's `entry.ts`. */
export async function startIslands(islands: Readonly<Record<string, LoadIsland>>): Promise<void> {
  hideLostPictures()
  const places = [...document.querySelectorAll<HTMLElement>('[data-island]')]
  await Promise.all(places.map((place) => start(place, islands)))
}

/** Hides each avatar's picture that can't be loaded, those that islands draw later too: the letter below it shows. */
function hideLostPictures(): void {
  const hide = (element: EventTarget | null) => {
    if (element instanceof HTMLImageElement && element.closest('.avatar')) element.hidden = true
  }
  document.addEventListener('error', ({ target }) => hide(target), true)
  for (const image of document.images) if (image.complete && image.naturalWidth === 0) hide(image)
}

async function start(place: HTMLElement, islands: Readonly<Record<string, LoadIsland>>): Promise<void> {
  const load = islands[place.dataset['island']!]
  if (load === undefined) return
  const component = await load()
  const drawn = h(InsideIsland.Provider, {
    value: true,
    children: h(component, JSON.parse(place.dataset['props'] ?? '{}')),
  })
  if ('fresh' in place.dataset) {
    place.replaceChildren()
    render(drawn, place)
  } else {
    const early = earlyInputs(place)
    hydrate(drawn, place)
    for (const repeat of early) repeat()
  }
  place.dataset['awake'] = ''
}

type Control = HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement

/** What was typed or chosen before the script came; each is done again once its component listens. */
function earlyInputs(place: HTMLElement): (() => void)[] {
  const controls = [...place.querySelectorAll<Control>('input, textarea, select')].filter(isChanged)
  return controls.map((control) => {
    const { value } = control
    const given = isTicked(control) ? { checked: control.checked } : { value }
    return () => {
      Object.assign(control, given)
      for (const type of ['input', 'change']) control.dispatchEvent(new Event(type, { bubbles: true }))
    }
  })
}

const isTicked = (control: Control): control is HTMLInputElement => /^(radio|checkbox)$/.test(control.type)

/** Differs from what the server wrote. A radio button is switched off by another one, which says it for both. */
function isChanged(control: Control): boolean {
  if (control instanceof HTMLSelectElement)
    return [...control.options].some(({ selected, defaultSelected }) => selected && !defaultSelected)
  if (!isTicked(control)) return control.value !== control.defaultValue
  const { type, checked, defaultChecked } = control
  return checked !== defaultChecked && (checked || type === 'checkbox')
}

/** What the page's server wrote for its scripts: `data` of `renderPage`. */
export function pageData<T>(): T {
  return JSON.parse(document.getElementById('page-data')?.textContent ?? 'null') as T
}
