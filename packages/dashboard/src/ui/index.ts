/** The components that pages are built from. */
export { Button, CopyButton, Link, LinkButton } from './button.js'
export { type ChartLine, TimeChart } from './chart.js'
export { Dialog } from './dialog.js'
export { CheckField, Choice, SelectField, TextArea, TextField } from './field.js'
export { Card, Definitions, Grid, Page, Row, Stack } from './page.js'
export { CeilingBar, Meter, ShareBar, Sparkline } from './sparkline.js'
export { type Column, Table } from './table.js'
export { Tabs } from './tabs.js'
export {
  SingleProcessNote,
  Badge,
  Empty,
  ErrorNote,
  Loading,
  ModeBadge,
  Note,
  Sign,
  Stat,
} from './feedback.js'
export { Caller, Text, RelativeTime } from './text.js'
export { toast, Toasts } from './toast.js'
export type { Tone } from './tone.js'
export { callerColumn, isHashOnly, TopCaller } from './top-caller.js'
