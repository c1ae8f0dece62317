import { CopyButton } from '../components/button.ts'
import { Countdown, Time } from '../components/time.ts'
import { islandsOf, startIslands } from '../island/startIslands.ts'
import { providePayer } from './payer.ts'
import { SearchBox } from './searchBox.ts'
import { TryIt } from './tryIt.ts'

providePayer(async () => (await import('./browserPayer.ts')).browserPayer)
void startIslands(islandsOf(CopyButton, Time, Countdown, SearchBox, TryIt))

// Applies a filter when it changes. Without JavaScript, the reader presses a button.
for (const form of document.querySelectorAll<HTMLFormElement>('form[data-submits]')) {
  form.addEventListener('change', (event) => {
    if (event.target instanceof HTMLSelectElement) form.requestSubmit()
  })
}
