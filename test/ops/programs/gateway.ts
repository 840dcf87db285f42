import './quiet-process.ts';
